"""Claims and results in the store -> histories. Between two questions only what can never change is remembered."""

from __future__ import annotations

import threading
from itertools import zip_longest
from typing import Final

from sapwood.core.artifacts import (
    AgentExecutionArtifacts,
    AgentRequest,
    AgentRequests,
    AgentResult,
    Input,
    OutcomeEvidenceArtifacts,
)
from sapwood.core.codec import from_record
from sapwood.core.config import ExecutionConfig
from sapwood.core.frames import Frame, fan_out, sub_workflow
from sapwood.core.keys import ArtifactKey
from sapwood.core.schedule import Progress, begin, finish, start
from sapwood.core.workflow import SpawnNode, Workflow, WorkflowNode, workflow_from_dict
from sapwood.errors import NotFound
from sapwood.ports import ArtifactStore, Claim, Reader
from sapwood.runtime.history import Attempt, History, Level, Plan
from sapwood.runtime.loading import load_artifact
from sapwood.runtime.roles import CANCEL, DELIVERY, DISPATCH, OF_RUN, PAUSE, PRUNED, REPORT, REQUEST, RESULT, RESUME
from sapwood.runtime.run_config import read_policies

GROUP: Final = AgentExecutionArtifacts.__name__
EVIDENCE: Final = OutcomeEvidenceArtifacts.__name__


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


def _end_of(attempt: Attempt) -> str:
    assert attempt.result_key is not None
    return attempt.result_key.segments[-1]
