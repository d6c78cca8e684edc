"""What is recorded of a run -> where it stands. Nothing is remembered between two questions but what can never change.

Every fact has its unique row (node, attempt, delivery, role). An attempt's result carries what routing made of it, in
the same transaction; so a run's state is its finished visits played back, in whatever process, after whatever crash.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, TypeVar

import msgspec

from sapwood.core.artifacts import (
    AgentExecutionArtifacts,
    AgentRequest,
    AgentRequests,
    AgentResult,
    Input,
    OutcomeEvidenceArtifacts,
    PreviousTry,
    Report,
)
from sapwood.core.codec import from_record
from sapwood.core.config import ExecutionConfig
from sapwood.core.enrichment import PARENT_TYPES, Past, request_type
from sapwood.core.frames import Frame, fan_out, sub_workflow
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.routing import Selection
from sapwood.core.schedule import Progress, begin, finish, start
from sapwood.core.workflow import Node, SpawnNode, Workflow, WorkflowNode, workflow_from_dict
from sapwood.errors import NotFound
from sapwood.ports import ArtifactStore, Claim, Reader
from sapwood.runtime.run_config import RunPolicies, read_policies

REQUEST, DISPATCH, DELIVERY, RESULT, REPORT = "request", "dispatch", "delivery", "result", "report"
PRUNED = "pruned"
CANCEL, PAUSE, RESUME, GOAL = "cancel", "pause", "resume", "goal"
ANSWER, MESSAGE = "answer", "message"
A = TypeVar("A", bound=Artifact)
OF_RUN = ""  # the node of facts that belong to the whole run


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


class Histories:
    """Reads histories; keeps plans, results, and the state that the results seen so far give, none of which change."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._plans: dict[str, Plan] = {}
        self._results: dict[ArtifactKey, AgentResult] = {}
        self._node_ids: dict[tuple[ArtifactKey, str], int] = {}
        self._frames: dict[ArtifactKey, Frame] = {}
        self._played: dict[ArtifactKey, tuple[frozenset[ArtifactKey], Progress]] = {}
        self._lock = threading.Lock()

    def plan(self, run: str) -> Plan:
        if run not in self._plans:
            self._plans[run] = self._read_plan(ArtifactKey(run))
        return self._plans[run]

    def forget(self, run: str) -> None:
        """Let go of what is kept of a run that has ended; asked again, it is read again."""
        root = ArtifactKey(run)
        with self._lock:
            self._plans.pop(run, None)
            # The keys are copied at once, because steps of other runs add to these meanwhile.
            for kept in (self._results, self._frames, self._played):
                for key in [key for key in list(kept) if key.root == root]:
                    del kept[key]
            for name in [name for name in list(self._node_ids) if name[0] == root]:
                del self._node_ids[name]

    def load(self, run: str) -> History:
        plan = self.plan(run)
        with self._store.read() as reader:
            attempts: dict[str, list[Attempt]] = {}
            of_run: dict[str, list[int]] = {CANCEL: [], PAUSE: [], RESUME: []}
            pruned = set()
            dispatched: dict[tuple[str, int], ArtifactKey] = {}
            claims = reader.list_claims(plan.run)
            for claim in claims:  # by node, attempt, delivery, role: a delivery-0 request first
                if claim.node == OF_RUN:
                    of_run.setdefault(claim.role, []).append(claim.key.time_ms)
                elif claim.role == PRUNED:
                    pruned.add((claim.node, claim.attempt))
                elif claim.role == REQUEST:
                    number = self._run_node_id(reader, plan.run, claim)
                    attempts.setdefault(claim.node, []).append(Attempt(claim.node, claim.attempt, claim.key, number))
                elif claim.role == DISPATCH:
                    dispatched[claim.node, claim.attempt] = claim.key
                elif claim.role == DELIVERY:
                    attempts[claim.node][-1].deliveries[claim.delivery] = claim.key
            for claim in claims:
                if claim.role in (RESULT, REPORT) and claim.node != OF_RUN:
                    attempt = attempts[claim.node][claim.attempt - 1]
                    if claim.role == REPORT:
                        attempt.report_key = claim.key
                    else:
                        attempt.result_key, attempt.result = claim.key, self._result(reader, claim.key)
            for (node, number), container in dispatched.items():
                attempts[node][number - 1].dispatch = container
            levels: dict[str, Level] = {}
            self._open_levels(reader, plan, OF_RUN, Frame(plan.workflow, plan.inputs), None, attempts, levels)
        return History(
            attempts,
            levels,
            {node.key: name for name, level in levels.items() for node in level.workflow.nodes},
            bool(of_run[CANCEL]),
            len(of_run[PAUSE]) > len(of_run[RESUME]),
            frozenset(pruned),
            tuple(zip_longest(of_run[PAUSE], of_run[RESUME])),
        )

    def _open_levels(
        self,
        reader: Reader,
        plan: Plan,
        name: str,
        frame: Frame,
        opener: ArtifactKey | None,
        attempts: dict[str, list[Attempt]],
        levels: dict[str, Level],
    ) -> None:
        """Add the level of this frame, and those that its open attempts have opened inside it."""
        here = [
            one
            for node in frame.workflow.nodes
            for one in attempts.get(node.key, [])
            if opener is None or one.request.parent == opener
        ]
        levels[name] = Level(frame, self._play_back(opener or plan.run, frame.workflow, here), opener)
        for one in here:
            node = frame.workflow.node(one.node)
            if one.result is None and isinstance(node, SpawnNode | WorkflowNode):
                inside = self._frame(reader, frame, node, one)
                if inside is not None:
                    below = one.dispatch or one.request
                    self._open_levels(reader, plan, one.node, inside, below, attempts, levels)

    def _frame(self, reader: Reader, outer: Frame, node: SpawnNode | WorkflowNode, attempt: Attempt) -> Frame | None:
        """Return the graph that an attempt opened, as it was recorded then; None if it could not open one."""
        if attempt.request not in self._frames:
            made: Frame | None = None
            if isinstance(node, WorkflowNode):
                request = load_artifact(reader, attempt.request, AgentRequest).request
                made = sub_workflow(outer, node, request["inputs"]) if "inputs" in request else None
            elif attempt.dispatch is not None:
                container = load_artifact(reader, attempt.dispatch, AgentRequests)
                assert isinstance(container.names, tuple)
                made = fan_out(outer, node, container.names, container.items)
            if made is None:
                return None
            self._frames[attempt.request] = made
        return self._frames[attempt.request]

    def _play_back(self, level: ArtifactKey, workflow: Workflow, attempts: list[Attempt]) -> Progress:
        """Play the finished visits back in the order in which they ended; those played before need no second time.

        The state does not depend on the order, so one that ended earlier and was stored later can follow.
        """
        ended = {one.result_key: one for one in attempts if one.ends_visit}
        keys = frozenset(key for key in ended if key is not None)
        with self._lock:
            seen, progress = self._played.get(level) or (frozenset(), begin(workflow))
        if not seen <= keys:  # another thread has read on meanwhile; this is the state of an earlier moment
            seen, progress = frozenset(), begin(workflow)
        for attempt in sorted((ended[key] for key in keys - seen), key=_end_of):
            selection = attempt.selection
            assert selection is not None
            progress = finish(workflow, start(progress.state, attempt.node), selection)
        with self._lock:
            if keys > self._played.get(level, (frozenset(), progress))[0]:
                self._played[level] = keys, progress
        return progress

    def _result(self, reader: Reader, key: ArtifactKey) -> AgentResult:
        if key not in self._results:
            self._results[key] = load_artifact(reader, key, AgentResult)
        return self._results[key]

    def _run_node_id(self, reader: Reader, run: ArtifactKey, claim: Claim) -> int:
        """Return the node's number in the run; every attempt of a node has the same one."""
        if (run, claim.node) not in self._node_ids:
            number = load_artifact(reader, claim.key, AgentRequest).run_node_id
            assert isinstance(number, int)
            self._node_ids[run, claim.node] = number
        return self._node_ids[run, claim.node]

    def _read_plan(self, run: ArtifactKey) -> Plan:
        with self._store.read() as reader:
            row = reader.find_run(run)
            found = {record.kind: record for record in reader.load_kinds(run, ["ExecutionConfig", GROUP, EVIDENCE])}
            inputs = [from_record(record) for record in reader.load_kinds(run, ["Input"])]
        if row is None or len(found) < 3:
            raise NotFound(f"run {run}", "`sapwood runs` lists what is stored")
        config = from_record(found["ExecutionConfig"])
        if not isinstance(config, ExecutionConfig) or not config.routing or "graph" not in config.routing:
            raise NotFound(f"a workflow in run {run}", "it was recorded, not started from a workflow")
        return Plan(
            run,
            row.workflow_run_id,
            workflow_from_dict(config.routing["graph"]),
            {one.name: one.value for one in inputs if isinstance(one, Input)},
            found[GROUP].key,
            found[EVIDENCE].key,
            read_policies(config),
        )


GROUP = AgentExecutionArtifacts.__name__
EVIDENCE = OutcomeEvidenceArtifacts.__name__


def load_artifact(reader: Reader, key: ArtifactKey, kind: type[A]) -> A:
    record = reader.find(key)
    artifact = None if record is None else from_record(record)
    if not isinstance(artifact, kind):
        raise NotFound(f"{kind.__name__} {key}")
    return artifact


def find_report(reader: Reader, key: ArtifactKey | None) -> Report | None:
    """Return the report with this key; None when there is none."""
    record = None if key is None else reader.find(key)
    artifact = None if record is None else from_record(record)
    return artifact if isinstance(artifact, Report) else None


def _end_of(attempt: Attempt) -> str:
    assert attempt.result_key is not None
    return attempt.result_key.segments[-1]
