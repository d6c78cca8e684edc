"""What the executor writes. Streams go through the spool; what may exist once only is claimed and synced at once."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from sapwood.core.artifacts import AgentRequest, AgentRequests, AgentResult, Delivery, EndStatus, Log, Report
from sapwood.core.codec import to_record
from sapwood.core.enrichment import Outgoing, check_enriched, enrich
from sapwood.core.event_artifacts import artifact_of_event
from sapwood.core.events import (
    GoalCompletedEvent,
    GraphEvent,
    NodePrunedEvent,
    NodeStatusChangedEvent,
    StopAgentEvent,
    ToolCallEvent,
)
from sapwood.core.handoff import account_for
from sapwood.core.inputs import goal_of
from sapwood.core.instants import instant_of_ms
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.record import Record
from sapwood.core.routing import Selection, VisitResult, next_try_delay_s, route
from sapwood.core.schedule import selected_predecessors
from sapwood.core.substitution import substitute_text
from sapwood.core.workflow import AgentNode, GateNode
from sapwood.errors import DuplicateClaim, IncompleteRun
from sapwood.ports import Claim
from sapwood.runtime.history import Attempt, History, Plan
from sapwood.runtime.loading import load_artifact
from sapwood.runtime.meter import open_meter
from sapwood.runtime.node_events import ended, never_started, opened, resumed
from sapwood.runtime.opening import find_opening
from sapwood.runtime.roles import DELIVERY, DISPATCH, GOAL, OF_RUN, PRUNED, REPORT, REQUEST, RESULT
from sapwood.runtime.run import Ids
from sapwood.runtime.tool_calls import tool_call_of
from sapwood.runtime.world import Done, Work, World


class Journal:
    """Records what happens in the runs of one process; safe to call from any thread."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.keys = world.store.keys
        self._ids: dict[ArtifactKey, Ids] = {}
        self._lock = threading.Lock()

    # -- what comes as it comes ---------------------------------------------------------------------------------------

    def event(self, kind: type[GraphEvent], node: str | None, /, **payload: Any) -> GraphEvent:
        """Return an event that happens now."""
        now = instant_of_ms(self.world.store.clock())
        return kind(event_id=self.keys.segment(), node_id=node, timestamp=now, **payload)

    def emit(self, parent: ArtifactKey, *events: GraphEvent) -> None:
        """Record events below `parent`, in this order; they survive the process when this returns."""
        self.record(*self._below(parent, events))

    def stream(self, parent: ArtifactKey, event: GraphEvent) -> None:
        """Record what came out of a call; a tool call that has ended also as itself, with what went in and out."""
        tool_call = tool_call_of(event, parent, self.keys.child) if isinstance(event, ToolCallEvent) else []
        self.record(*tool_call, *self._below(parent, [event]))

    def record(self, *artifacts: Artifact) -> None:
        """Record all of it or none; it survives the process when this returns."""
        self.record_all([to_record(artifact) for artifact in artifacts])

    def record_all(self, records: Sequence[Record]) -> None:
        """Record all of it or none, like `record`."""
        self.world.store.recorder.check_references(records)
        self.world.store.recorder.record(records)

    # -- what there is once -------------------------------------------------------------------------------------------

    def open_attempt(self, plan: Plan, history: History, node: str, number: int) -> None:
        """Record the attempt's request, and with it what it fans out or starts inside itself."""
        level, earlier = history.level_of(node), history.attempts.get(node, [])
        kind = level.workflow.node(node).kind
        opening = find_opening(level.workflow.node(node), level, history)
        outgoing = Outgoing(
            node,
            number,
            run_node_id=earlier[0].run_node_id if earlier else self.ids(plan.run).next_node_id(),
            visit=history.visits(node) + 1,
            try_number=len(history.open_tries(node)) + 1,
            request={"kind": kind} if opening.inputs is None else {"kind": kind, "inputs": opening.inputs},
        )
        request = _asking(enrich(outgoing, history.past(plan, node), self.keys), history)
        artifacts: list[Artifact] = [request, *self._below(request.key, opened(self.event, request, history))]
        claims = [Claim(plan.run, node, number, 0, REQUEST, request.key)]
        if opening.items is not None:
            container = AgentRequests(self.keys.child(request.key), node=node, names=opening.names, items=opening.items)
            artifacts.append(container)
            claims.append(Claim(plan.run, node, number, 0, DISPATCH, container.key))
        self.claim(artifacts, claims)

    def open_delivery(self, plan: Plan, history: History, attempt: Attempt) -> Work:
        """Begin a try to do the attempt's work. Raises NotEnriched for a request that lacks its context."""
        with self.world.store.artifacts.read() as reader:
            check_enriched(load_artifact(reader, attempt.request, AgentRequest), plan.agents)
            meter = open_meter(reader, plan, history, attempt, self.world.store.clock)
        number = len(attempt.deliveries) + 1
        key = self.keys.child(attempt.request)
        interrupted = attempt.deliveries[number - 1] if number > 1 else None
        level = history.level_of(attempt.node)
        node, folder = level.workflow.node(attempt.node), self.world.project
        provider = node.provider if isinstance(node, AgentNode) else msgspec.UNSET
        delivery = Delivery(key, delivery=number, provider=provider, interrupted=interrupted)
        events = [] if interrupted is None else self._below(key, resumed(self.event, attempt.node))
        self.claim([delivery, *events], [Claim(plan.run, attempt.node, attempt.number, number, DELIVERY, key)])
        attempt.deliveries[number] = key
        return Work(plan, history, level, node, attempt, key, meter, folder)

    def end_attempt(self, work: Work, done: Done) -> str:
        """Record the attempt's one result, with what routing makes of it; return its status."""
        attempt, node, plan = work.attempt, work.node, work.plan
        key = self.keys.child(work.delivery)
        selection, delay_s = _routed(work, done)
        routed = {"retry_after_s": delay_s} if selection is None else {"selection": msgspec.to_builtins(selection)}
        result = AgentResult(
            key,
            status="completed" if done.error is None else "failed",
            decision=done.result.decision,
            result=done.result.data,
            error=done.error,
            metadata={**routed, **asdict(work.meter.usage)},
            **done.about,
        )
        report = self._report_of(work, done, self.keys.child(key))
        where = (plan.run, node.key, attempt.number, 0)
        claims = [Claim(*where, RESULT, key)]
        if done.error is None:
            claims.append(Claim(*where, REPORT, report.key))
        events = ended(self.event, node.key, node.kind, done.error, selection)
        self.claim([*done.products, result, report, *self._below(work.delivery, events)], claims)
        return result.status

    def end_cancelled(self, plan: Plan, attempt: Attempt) -> str:
        """Record that the attempt ended because the run was cancelled."""
        scope = attempt.deliveries[max(attempt.deliveries)] if attempt.deliveries else attempt.request
        key, node = self.keys.child(scope), attempt.node
        events = [
            self.event(StopAgentEvent, node, reason="the run was cancelled"),
            self.event(NodeStatusChangedEvent, node, old_status="running", new_status="cancelled"),
        ]
        result = AgentResult(key, status="cancelled", error="the run was cancelled")
        self.claim([result, *self._below(scope, events)], [Claim(plan.run, node, attempt.number, 0, RESULT, key)])
        return "cancelled"

    def prune(self, plan: Plan, history: History, node: str, visits: int) -> None:
        """Record that nothing can select this node any more."""
        parent = history.level_of(node).opener or plan.agents
        events = [
            self.event(NodePrunedEvent, node, reason="no edge selected it"),
            self.event(NodeStatusChangedEvent, node, old_status="pending", new_status="skipped"),
        ]
        below = self._below(parent, events)
        self.claim(below, [Claim(plan.run, node, visits, 0, PRUNED, below[0].key)])

    def close_run(self, plan: Plan, history: History, status: EndStatus) -> str:
        """Record the end and seal the run, unless somebody has; return the status it is sealed with."""
        store = self.world.store
        with store.artifacts.read() as reader:
            row = reader.find_run(plan.run)
        if row is not None and row.status != "running":
            return row.status
        nodes = history.progress.state.nodes.values()
        event = self.event(
            GoalCompletedEvent,
            None,
            final_summary=self._resolution(plan, status),
            total_nodes_completed=sum(node.status == "completed" for node in nodes),
            total_nodes_failed=sum(node.status == "failed" for node in nodes),
            execution_time_ms=store.clock() - plan.run.time_ms,
        )
        if status == "cancelled":
            for tried in history.attempts.values():
                if tried[-1].result is None:
                    self.end_cancelled(plan, tried[-1])
        ends = self._below(plan.agents, [event, *never_started(self.event, history)])
        self.claim(ends, [Claim(plan.run, OF_RUN, 0, 0, GOAL, ends[0].key)])
        run = store.attach(plan.run)
        if status == "cancelled":
            run.cancel()
        elif status == "failed":
            run.fail()
        else:
            try:
                run.complete()
            except IncompleteRun:
                run.fail()
                return "failed"
        return status

    def _resolution(self, plan: Plan, status: EndStatus) -> str:
        """Return how the run's goal was resolved: the goal, the outcome, and the evidence there is."""
        with self.world.store.artifacts.read() as reader:
            evidence = tuple(reader.child_keys(plan.evidence))
        goal = goal_of(plan.inputs) or msgspec.UNSET
        result = AgentResult(plan.run, status=status, goal=goal, outcome=status, evidence=evidence)
        return result.serialize(for_="goal_resolution")

    def claim(self, artifacts: Sequence[Artifact], claims: Sequence[Claim]) -> bool:
        """Store all of it, synced, after everything recorded before; tell whether nobody had claimed it already."""
        records = [to_record(artifact) for artifact in artifacts]
        try:
            self.world.store.recorder.append(records, claims=claims)
        except DuplicateClaim:
            return False
        return True

    # -- the rest -----------------------------------------------------------------------------------------------------

    def ids(self, run: ArtifactKey) -> Ids:
        """Return the run's integers for nodes and reports."""
        with self._lock:
            return self._ids.setdefault(run, Ids(self.world.store.artifacts, run))

    def forget(self, run: ArtifactKey) -> None:
        """Let go of what is kept of a run that has ended."""
        with self._lock:
            self._ids.pop(run, None)

    def _below(self, parent: ArtifactKey, events: Iterable[GraphEvent]) -> list[Artifact]:
        return [artifact_of_event(self.keys.child(parent), event) for event in events]

    def _report_of(self, work: Work, done: Done, key: ArtifactKey) -> Report:
        kind = Report if done.error is None else Log
        return kind(
            key,
            text=done.result.report if done.error is None else _log_text(done.error, done.result.report),
            content_type=done.result.content_type if done.error is None else "text",  # type: ignore[arg-type]
            artifact_id=self.ids(work.plan.run).next_artifact_id(),
            run_node_id=work.attempt.run_node_id,
            node_key=work.node.key,
            attempt=work.attempt.number,
            created_at=instant_of_ms(key.time_ms),
            context_manifest=done.manifest or account_for((), instant_of_ms(key.time_ms)),
        )


def _asking(request: AgentRequest, history: History) -> AgentRequest:
    """Return the request of a gate with its question and what led to it; that of another node as it is."""
    level = history.level_of(request.node)
    gate = level.workflow.node(request.node)
    if not isinstance(gate, GateNode):
        return request
    before = selected_predecessors(level.workflow, level.progress.state, gate.key)
    led_here = {name: history.attempts[name][-1] for name in before}
    return msgspec.structs.replace(
        request,
        goal=goal_of(level.frame.inputs) or msgspec.UNSET,
        question=substitute_text(gate.ask, level.frame.scope(gate.key)),
        options=gate.answers,
        state={name: None if one.result is None else one.result.decision for name, one in led_here.items()},
    )


def _log_text(error: str, said: str) -> str:
    """Return why an attempt failed, and below it what it said all the same, such as the output of a failed test."""
    return f"{error}\n\n{said}" if said else error


def _routed(work: Work, done: Done) -> tuple[Selection | None, float | None]:
    """Return what follows from the result: the edges that this visit selects, or another try after so many seconds."""
    outcome = VisitResult(
        outcome="success" if done.error is None else "failure",
        decision=done.result.decision,
        report=done.result.data,
        attempt=work.attempt.number,
    )
    delay_s = next_try_delay_s(work.node, len(work.history.open_tries(work.node.key)), outcome)
    if delay_s is not None and not done.is_final:
        return None, delay_s
    level = work.level
    return route(level.workflow, work.node.key, outcome, level.frame.inputs, level.progress.state.loops), None
