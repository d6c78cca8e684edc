"""Where a run stands, for people: each node with its status, tries, time, tokens and use of its context.

Read from what is recorded alone, so that any process can show any run, also one that another process is at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from sapwood.core.artifacts import AgentRequest, AgentResult
from sapwood.core.handoff import HandoffPolicy
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.workflow import BaseNode
from sapwood.ports import Claim, Reader
from sapwood.runtime.histories import Histories
from sapwood.runtime.history import Plan
from sapwood.runtime.loading import load_artifact
from sapwood.runtime.pauses import is_paused
from sapwood.runtime.roles import OF_RUN, PRUNED, REPORT, REQUEST, RESULT
from sapwood.runtime.session import Store

OPEN = ("running", "paused", "interrupted")
A = TypeVar("A", bound=Artifact)


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as people see it. `depth` is 0 for the nodes of the file, 1 for the children of a fan-out, …"""

    key: str
    kind: str
    status: str
    depth: int = 0
    attempts: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    tokens: int = 0
    context_chars: int | None = None
    context_limit_chars: int | None = None
    context_is_cut: bool = False
    error: str | None = None
    error_before: str | None = None
    """Why the try before failed, while the next one waits or runs."""
    question: str | None = None
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as people see it; its `status` is that of the index, or paused or interrupted."""

    run: str
    workflow: str
    status: str
    started_ms: int
    ended_ms: int | None
    nodes: tuple[NodeView, ...]
    head: str | None = None

    @property
    def tokens(self) -> int:
        return sum(node.tokens for node in self.nodes)


@dataclass(slots=True)
class _Told:
    """What the claims say about one node."""

    requests: dict[int, ArtifactKey] = field(default_factory=dict)
    results: dict[int, ArtifactKey] = field(default_factory=dict)
    reports: dict[int, ArtifactKey] = field(default_factory=dict)
    is_pruned: bool = False


class Overview:
    """Reads overviews; what can never change is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._histories = Histories(store.artifacts)
        self._artifacts: dict[ArtifactKey, Any] = {}
        self._manifests: dict[ArtifactKey, Any] = {}

    def load(self, run: ArtifactKey) -> RunView:
        """Return where the run stands now; raise NotFound for one that is none of a workflow."""
        plan = self._histories.plan(run.text)
        with self._store.artifacts.read() as reader:
            row = reader.find_run(run)
            assert row is not None
            claims = reader.list_claims(run)
            told = _told(claims)
            is_open = row.status == "running"
            is_left = is_open and not self._store.is_alive(row.owner)
            left = None if not is_left else "paused" if is_paused(claims) else "interrupted"
            status = "paused" if is_open and is_paused(claims) else left or row.status
            nodes = [
                self._node(reader, plan, key, depth, told[key], left, status) for key, depth in _places(plan, told)
            ]
        return RunView(run.text, plan.workflow.name, status, row.started_ms, row.ended_ms, tuple(nodes), row.head)

    def _node(
        self, reader: Reader, plan: Plan, key: str, depth: int, told: _Told, left: str | None, run_status: str
    ) -> NodeView:
        """Return the node's view; `left` is what an open attempt is when nobody is at it."""
        known = next((node for node in plan.workflow.nodes if node.key == key), None)
        if not told.requests:
            assert known is not None
            unstarted = "cancelled" if run_status == "cancelled" else "pending"
            return NodeView(key, known.kind, "skipped" if told.is_pruned else unstarted, depth)
        last = max(told.requests)
        results = {number: self._read(reader, place, AgentResult) for number, place in told.results.items()}
        result = results.get(last)
        status = _status(result, left)
        chars, is_cut = self._context(reader, told.reports.get(last))
        request = self._read(reader, told.requests[last], AgentRequest)
        is_asking = isinstance(request.question, str) and status in OPEN
        return NodeView(
            key=key,
            kind=str(request.request["kind"]) if isinstance(request.request, dict) else "agent",
            status="waiting" if is_asking else status,
            depth=depth,
            attempts=len(told.requests),
            started_ms=told.requests[min(told.requests)].time_ms,
            ended_ms=told.results[last].time_ms if result is not None and status not in OPEN else None,
            tokens=sum(_tokens(one) for one in results.values()),
            context_chars=chars,
            context_limit_chars=None if chars is None else _limit(known),
            context_is_cut=is_cut,
            error=_error(result),
            error_before=_error(_tried(results.get(last - 1))) if result is None and status in OPEN else None,
            question=str(request.question) if is_asking else None,
            answers=request.options if is_asking and isinstance(request.options, tuple) else (),
        )

    def _context(self, reader: Reader, report: ArtifactKey | None) -> tuple[int | None, bool]:
        """Return how many characters of context the attempt had, and whether any were left out."""
        if report is None:
            return None, False
        if report not in self._manifests:
            outline = next(iter(reader.outline(report)))  # its text may be large and is not needed
            self._manifests[report] = msgspec.json.decode(outline.metadata).get("context_manifest")
        manifest = self._manifests[report]
        if not isinstance(manifest, dict):
            return None, False
        return manifest.get("included_chars_total", 0), bool(manifest.get("dropped_chars_total"))

    def _read(self, reader: Reader, key: ArtifactKey, kind: type[A]) -> A:
        if key not in self._artifacts:
            self._artifacts[key] = load_artifact(reader, key, kind)
        found: A = self._artifacts[key]
        return found


def _told(claims: Iterable[Claim]) -> dict[str, _Told]:
    told: dict[str, _Told] = {}
    for claim in claims:
        if claim.node == OF_RUN:
            continue
        node = told.setdefault(claim.node, _Told())
        by_role = {REQUEST: node.requests, RESULT: node.results, REPORT: node.reports}
        if claim.role in by_role:
            by_role[claim.role][claim.attempt] = claim.key
        elif claim.role == PRUNED:
            node.is_pruned = True
    return told


def _places(plan: Plan, told: dict[str, _Told]) -> list[tuple[str, int]]:
    """Return all nodes with their depth: those of the file in its order, each followed by what it started."""
    own = [node.key for node in plan.workflow.nodes]
    started = sorted((key for key in told if key not in own), key=lambda key: _first_ms(told[key]))
    below: dict[str, list[str]] = {}
    for key in started:
        above = key.rpartition(".")[0]
        while above and above not in told and above not in own:
            above = above.rpartition(".")[0]
        below.setdefault(above, []).append(key)
    places: list[tuple[str, int]] = []

    def place(key: str, depth: int) -> None:
        told.setdefault(key, _Told())
        places.append((key, depth))
        for child in below.get(key, ()):
            place(child, depth + 1)

    for key in (*own, *below.get(OF_RUN, ())):
        place(key, 0)
    return [(key, depth) for key, depth in places if key in own or told[key].requests]


def _first_ms(told: _Told) -> int:
    return told.requests[min(told.requests)].time_ms if told.requests else 0


def _status(result: AgentResult | None, left: str | None) -> str:
    if result is None or "retry_after_s" in result.metadata:
        return left or "running"
    return result.status


def _tried(result: AgentResult | None) -> AgentResult | None:
    """Return a result that another try of the same visit follows; None for any other."""
    return result if result is not None and "retry_after_s" in result.metadata else None


def _error(result: AgentResult | None) -> str | None:
    return result.error if result is not None and isinstance(result.error, str) else None


def _tokens(result: AgentResult) -> int:
    tokens = result.metadata.get("tokens", 0)
    return tokens if isinstance(tokens, int) else 0


def _limit(node: BaseNode | None) -> int:
    policy = {} if node is None else node.context.policy
    return policy.get("max_context_chars_total", HandoffPolicy().max_context_chars_total)
