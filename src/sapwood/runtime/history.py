"""What is recorded of a run -> where it stands. Nothing is remembered between two questions but what can never change.

Every fact has its unique row (node, attempt, delivery, role). An attempt's result carries what routing made of it, in
the same transaction; so a run's state is its finished visits played back, in whatever process, after whatever crash.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from sapwood.core.artifacts import AgentExecutionArtifacts, AgentRequest, AgentResult, Input, PreviousTry
from sapwood.core.codec import from_record
from sapwood.core.config import ExecutionConfig
from sapwood.core.enrichment import Past
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.routing import Selection
from sapwood.core.schedule import Progress, begin, finish, start
from sapwood.core.workflow import Workflow, workflow_from_dict
from sapwood.errors import NotFound
from sapwood.ports import ArtifactStore, Claim, Reader

REQUEST, DELIVERY, RESULT, REPORT, PRUNED = "request", "delivery", "result", "report", "pruned"
CANCEL, PAUSE, RESUME, ANSWER, GOAL = "cancel", "pause", "resume", "answer", "goal"
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


@dataclass(slots=True)
class Attempt:
    """One try of a node: its request, how many deliveries it had, and its result once there is one."""

    node: str
    number: int
    request: ArtifactKey
    run_node_id: int
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
class History:
    """Where a run stands: its attempts by node, the state of its graph, and what people asked for."""

    attempts: dict[str, list[Attempt]]
    progress: Progress
    is_cancelled: bool
    is_paused: bool
    pruned: frozenset[tuple[str, int]]

    def next_attempt(self, node: str) -> int:
        """Return the attempt a ready node is at: the open one, or the one after the last."""
        tried = self.attempts.get(node, [])
        return tried[-1].number if tried and tried[-1].result is None else len(tried) + 1

    def open_tries(self, node: str) -> list[Attempt]:
        """Return the tries of the node's present visit, those that have ended included."""
        tries: list[Attempt] = []
        for attempt in self.attempts.get(node, []):
            tries.append(attempt)
            if attempt.ends_visit:
                tries = []
        return tries

    def past(self, plan: Plan, node: str) -> Past:
        """Return what enrichment needs to know for the next request of `node`."""
        return Past(
            run_id=plan.run.text,
            agents=plan.agents,
            opener=None,
            requests={other: [one.request for one in tried] for other, tried in self.attempts.items()},
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
        self._played: dict[str, tuple[frozenset[ArtifactKey], Progress]] = {}
        self._lock = threading.Lock()

    def plan(self, run: str) -> Plan:
        if run not in self._plans:
            self._plans[run] = self._read_plan(ArtifactKey(run))
        return self._plans[run]

    def load(self, run: str) -> History:
        plan = self.plan(run)
        with self._store.read() as reader:
            attempts: dict[str, list[Attempt]] = {}
            of_run = {CANCEL: 0, PAUSE: 0, RESUME: 0}
            pruned = set()
            claims = reader.list_claims(plan.run)
            for claim in claims:  # by node, attempt, delivery, role: a delivery-0 request first
                if claim.node == OF_RUN:
                    of_run[claim.role] = of_run.get(claim.role, 0) + 1
                elif claim.role == PRUNED:
                    pruned.add((claim.node, claim.attempt))
                elif claim.role == REQUEST:
                    number = self._run_node_id(reader, plan.run, claim)
                    attempts.setdefault(claim.node, []).append(Attempt(claim.node, claim.attempt, claim.key, number))
                elif claim.role == DELIVERY:
                    attempts[claim.node][-1].deliveries[claim.delivery] = claim.key
            for claim in claims:
                if claim.role in (RESULT, REPORT) and claim.node != OF_RUN:
                    attempt = attempts[claim.node][claim.attempt - 1]
                    if claim.role == REPORT:
                        attempt.report_key = claim.key
                    else:
                        attempt.result_key, attempt.result = claim.key, self._result(reader, claim.key)
        return History(
            attempts,
            self._play_back(plan, attempts),
            of_run[CANCEL] > 0,
            of_run[PAUSE] > of_run[RESUME],
            frozenset(pruned),
        )

    def _play_back(self, plan: Plan, attempts: dict[str, list[Attempt]]) -> Progress:
        """Play the finished visits back in the order in which they ended; those played before need no second time.

        The state does not depend on the order, so one that ended earlier and was stored later can follow.
        """
        ended = {one.result_key: one for tried in attempts.values() for one in tried if one.ends_visit}
        keys = frozenset(key for key in ended if key is not None)
        with self._lock:
            seen, progress = self._played.get(plan.run.text) or (frozenset(), begin(plan.workflow))
        if not seen <= keys:  # another thread has read on meanwhile; this is the state of an earlier moment
            seen, progress = frozenset(), begin(plan.workflow)
        for attempt in sorted((ended[key] for key in keys - seen), key=_end_of):
            selection = attempt.selection
            assert selection is not None
            progress = finish(plan.workflow, start(progress.state, attempt.node), selection)
        with self._lock:
            if keys > self._played.get(plan.run.text, (frozenset(), progress))[0]:
                self._played[plan.run.text] = keys, progress
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
            found = {record.kind: record for record in reader.load_kinds(run, ["ExecutionConfig", GROUP])}
            inputs = [from_record(record) for record in reader.load_kinds(run, ["Input"])]
        if row is None or len(found) < 2:
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
        )


GROUP = AgentExecutionArtifacts.__name__


def load_artifact(reader: Reader, key: ArtifactKey, kind: type[A]) -> A:
    record = reader.find(key)
    artifact = None if record is None else from_record(record)
    if not isinstance(artifact, kind):
        raise NotFound(f"{kind.__name__} {key}")
    return artifact


def _end_of(attempt: Attempt) -> str:
    assert attempt.result_key is not None
    return attempt.result_key.segments[-1]
