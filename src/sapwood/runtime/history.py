"""Where a run stands, as values: its attempts, the state of its graphs, and what people asked for.

Every fact has its unique row (node, attempt, delivery, role). An attempt's result carries what routing made of it, in
the same transaction; so a run's state is its finished visits played back, in whatever process, after whatever crash.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from sapwood.core.artifacts import AgentResult, PreviousTry
from sapwood.core.enrichment import PARENT_TYPES, Past, request_type
from sapwood.core.frames import Frame
from sapwood.core.keys import ArtifactKey
from sapwood.core.routing import Selection
from sapwood.core.schedule import Progress
from sapwood.core.workflow import Node, Workflow
from sapwood.runtime.roles import OF_RUN
from sapwood.runtime.run_config import RunPolicies


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run was started with; it never changes."""

    run: ArtifactKey
    workflow_run_id: int
    workflow: Workflow
    inputs: dict[str, Any]
    agents: ArtifactKey
    evidence: ArtifactKey
    policies: RunPolicies


@dataclass(slots=True)
class Attempt:
    """One try of a node: its request, how many deliveries it had, and its result once there is one.

    `dispatch` is the container of the requests that it fanned out.
    """

    node: str
    number: int
    request: ArtifactKey
    run_node_id: int
    dispatch: ArtifactKey | None = None
    deliveries: dict[int, ArtifactKey] = field(default_factory=dict)
    result_key: ArtifactKey | None = None
    report_key: ArtifactKey | None = None
    result: AgentResult | None = None

    @property
    def ends_visit(self) -> bool:
        return self.result is not None and "selection" in self.result.metadata

    @property
    def selection(self) -> Selection | None:
        """Return what routing made of this attempt, or None while it is open or another try follows."""
        if self.result is None or not self.ends_visit:
            return None
        return msgspec.convert(self.result.metadata["selection"], Selection)

    @property
    def as_previous(self) -> PreviousTry:
        """Return what a later try of the node is told of this one."""
        result = self.result
        return PreviousTry(
            key=self.request,
            status="interrupted" if result is None else result.status,
            error=result.error if result is not None and isinstance(result.error, str) else None,
            result=self.result_key,
        )

    @property
    def retry_after_s(self) -> float | None:
        return None if self.result is None else self.result.metadata.get("retry_after_s")


@dataclass(frozen=True, slots=True)
class Level:
    """One graph of the run and where it stands. Requests of its nodes stand below `opener`, if it has one."""

    frame: Frame
    progress: Progress
    opener: ArtifactKey | None = None

    @property
    def workflow(self) -> Workflow:
        return self.frame.workflow


@dataclass(frozen=True, slots=True)
class History:
    """Where a run stands: its attempts by node, the state of its graphs, and what people asked for.

    `levels` are the graphs that are open now, by the node that opened them; the workflow itself is that of no node.
    `homes` names the level of each node.
    """

    attempts: dict[str, list[Attempt]]
    levels: dict[str, Level]
    homes: dict[str, str]
    is_cancelled: bool
    is_paused: bool
    pruned: frozenset[tuple[str, int]]
    pauses: tuple[tuple[int, int | None], ...] = ()

    def paused_ms(self, since_ms: int, now_ms: int) -> int:
        """Return for how long the run has been paused since then."""
        spans = ((max(start, since_ms), now_ms if end is None else end) for start, end in self.pauses)
        return sum(max(0, end - start) for start, end in spans)

    @property
    def progress(self) -> Progress:
        """Return where the workflow itself stands."""
        return self.levels[OF_RUN].progress

    @property
    def skipped(self) -> list[tuple[str, int]]:
        """Return the nodes that nothing selected, each with its visits before that."""
        return [
            (key, state.visits)
            for level in self.levels.values()
            for key, state in level.progress.state.nodes.items()
            if state.status == "skipped"
        ]

    def level_of(self, node: str) -> Level:
        """Return the graph that a node belongs to; a node of no open graph is a KeyError."""
        return self.levels[self.homes[node]]

    def node(self, key: str) -> Node:
        return self.level_of(key).workflow.node(key)

    def next_attempt(self, node: str) -> int:
        """Return the attempt a ready node is at: the open one, or the one after the last."""
        tries = self.open_tries(node)
        is_open = bool(tries) and tries[-1].result is None
        return tries[-1].number if is_open else len(self.attempts.get(node, [])) + 1

    def open_tries(self, node: str) -> list[Attempt]:
        """Return the tries of the node's present visit, those that have ended included."""
        tries: list[Attempt] = []
        for attempt in self.attempts_here(node):
            tries.append(attempt)
            if attempt.ends_visit:
                tries = []
        return tries

    def attempts_here(self, node: str) -> list[Attempt]:
        """Return the node's attempts within its present graph; a fan-out that is repeated starts its children anew."""
        opener = self.level_of(node).opener
        tried = self.attempts.get(node, [])
        return tried if opener is None else [one for one in tried if one.request.parent == opener]

    def past(self, plan: Plan, node: str) -> Past:
        """Return what enrichment needs to know for the next request of `node`."""
        asks = request_type(node) in PARENT_TYPES
        return Past(
            run_id=plan.run.text,
            agents=plan.agents,
            opener=self.level_of(node).opener,
            requests={key: [one.request for one in tried] for key, tried in self.attempts.items()} if asks else {},
            tries=[one.as_previous for one in self.attempts.get(node, [])],
        )

    def visits(self, node: str) -> int:
        return sum(attempt.ends_visit for attempt in self.attempts.get(node, []))
