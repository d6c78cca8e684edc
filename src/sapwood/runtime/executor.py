"""The steps of a run on the store: each looks for its unique row first, and does its work only when there is none.

A call in flight when the process dies is made again, in a delivery of its own; a result that was recorded is never
made again, whatever the engine remembers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from sapwood.clock import KeyFactory
from sapwood.core.artifacts import AgentRequest, AgentResult, Delivery, Log, Report
from sapwood.core.codec import to_record
from sapwood.core.event_artifacts import artifact_of_event
from sapwood.core.events import (
    GoalCompletedEvent,
    GraphEvent,
    NodeAddedEvent,
    NodeErrorEvent,
    NodePrunedEvent,
    NodeStatusChangedEvent,
    StopAgentEvent,
)
from sapwood.core.instants import instant_of_ms
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.provider import ProviderResult
from sapwood.core.routing import VisitResult, next_try_delay_s, route
from sapwood.core.workflow import CommandNode, Node
from sapwood.errors import DuplicateClaim, SapwoodError
from sapwood.ports import ArtifactStore, Claim, Clock, Provider, Templates
from sapwood.runtime.history import DELIVERY, PRUNED, REPORT, REQUEST, RESULT, Attempt, Histories, History, Plan
from sapwood.runtime.history import load_request as read_request

MAX_DELIVERIES: Final = 10  # an attempt whose process died that often is what kills it
CANCEL_POLLING_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class World:
    """What the executor asks of its neighbours; `app` puts it together."""

    store: ArtifactStore
    keys: KeyFactory
    clock: Clock
    providers: Mapping[str, Provider]
    templates: Templates
    run_command: Callable[[CommandNode], Any]
    seal: Callable[[ArtifactKey, str], None]


@dataclass(frozen=True, slots=True)
class Work:
    """One delivery of one attempt: where everything it makes belongs."""

    plan: Plan
    history: History
    node: Node
    attempt: Attempt
    run_node_id: int
    delivery: ArtifactKey


@dataclass(frozen=True, slots=True)
class Done:
    """What a node's work came to. `error` makes it a failure."""

    result: ProviderResult
    error: str | None = None
    manifest: dict[str, Any] | None = None


class Cancelled(Exception):
    """The run was cancelled while this call was in flight."""


class Executor:
    """`ports.Steps` over a store."""

    def __init__(self, world: World, perform: Callable[[Work, Executor], Any]) -> None:
        self.world = world
        self._perform = perform
        self._histories = Histories(world.store)

    # -- the steps ----------------------------------------------------------------------------------------------------

    async def route(self, run: str, running: Sequence[str]) -> list[str]:
        history = await asyncio.to_thread(self._histories.load, run)
        if history.is_cancelled or history.is_paused:
            return []
        plan = self._histories.plan(run)
        for node, state in history.progress.state.nodes.items():
            if state.status == "skipped" and (node, state.visits) not in history.pruned:
                event = self.event(NodePrunedEvent, node, reason="no edge selected it")
                claim = Claim(plan.run, node, state.visits, 0, PRUNED, self.world.keys.child(plan.agents))
                self._append([artifact_of_event(claim.key, event)], [claim])
        ready = [f"{node}.{history.next_attempt(node)}" for node in history.progress.ready]
        return [visit for visit in ready if visit not in running]

    async def claim(self, run: str, node: str, attempt: int) -> float:
        history = await asyncio.to_thread(self._histories.load, run)
        tries = history.open_tries(node)
        earlier = [one for one in tries if one.number < attempt]
        if not any(one.number == attempt for one in tries):
            await asyncio.to_thread(self._open_attempt, self._histories.plan(run), history, node, attempt)
        return (earlier[-1].retry_after_s or 0.0) if earlier else 0.0

    async def call(self, run: str, node: str, attempt: int) -> str:
        plan = self._histories.plan(run)
        history = await asyncio.to_thread(self._histories.load, run)
        one = history.attempts[node][attempt - 1]
        if one.result is not None:
            return one.result.status
        work = await asyncio.to_thread(self._open_delivery, plan, history, one)
        try:
            done = await self._unless_cancelled(run, work)
        except Cancelled:
            return await asyncio.to_thread(self._record_cancelled, work)
        except SapwoodError as error:
            done = Done(ProviderResult(), error=str(error))
        return await asyncio.to_thread(self._record_result, work, done)

    async def finish(self, run: str) -> str:
        history = await asyncio.to_thread(self._histories.load, run)
        if history.is_cancelled:
            status = "cancelled"
        elif not history.progress.is_finished:
            return "paused"
        else:
            status = "completed" if history.progress.outcome == "success" else "failed"
        await asyncio.to_thread(self._close, self._histories.plan(run), history, status)
        return status

    # -- recording ----------------------------------------------------------------------------------------------------

    def event(self, kind: type[GraphEvent], node: str | None, **payload: Any) -> GraphEvent:
        """Return an event that happens now."""
        now = instant_of_ms(self.world.clock())
        return kind(event_id=self.world.keys.segment(), node_id=node, timestamp=now, **payload)

    def emit(self, parent: ArtifactKey, *events: GraphEvent) -> None:
        """Record events below `parent`, in this order."""
        self._append([artifact_of_event(self.world.keys.child(parent), event) for event in events])

    def record(self, *artifacts: Artifact) -> None:
        self._append(artifacts)

    def _append(self, artifacts: Sequence[Artifact], claims: Sequence[Claim] = ()) -> bool:
        """Store all of it; tell whether it was us, or somebody had claimed it already."""
        try:
            self.world.store.append([to_record(artifact) for artifact in artifacts], claims=claims)
        except DuplicateClaim:
            return False
        return True

    def _open_attempt(self, plan: Plan, history: History, node: str, number: int) -> None:
        key = self.world.keys.child(plan.agents)
        earlier = history.attempts.get(node, [])
        if earlier:
            run_node_id = self._run_node_id(earlier[0])
        else:
            run_node_id, _ = self.world.store.reserve_ids(plan.run, 1, 0)
        request = AgentRequest(
            key,
            node=node,
            attempt=number,
            request={"node": node, "kind": plan.workflow.node(node).kind},
            run_node_id=run_node_id,
            visit=history.visits(node) + 1,
            try_=len(history.open_tries(node)) + 1,
            metadata={"previous": [_previous(one) for one in earlier]},
        )
        events = [
            self.event(NodeAddedEvent, node, node_title=node, node_type=plan.workflow.node(node).kind),
            self.event(NodeStatusChangedEvent, node, old_status="pending", new_status="running"),
        ]
        below = [artifact_of_event(self.world.keys.child(key), event) for event in events]
        self._append([request, *below], [Claim(plan.run, node, number, 0, REQUEST, key)])

    def _open_delivery(self, plan: Plan, history: History, attempt: Attempt) -> Work:
        number = len(attempt.deliveries) + 1
        key = self.world.keys.child(attempt.request)
        interrupted = attempt.deliveries[number - 1] if number > 1 else None
        delivery = Delivery(key, delivery=number, interrupted=interrupted)
        self._append([delivery], [Claim(plan.run, attempt.node, attempt.number, number, DELIVERY, key)])
        attempt.deliveries[number] = key
        node = plan.workflow.node(attempt.node)
        return Work(plan, history, node, attempt, self._run_node_id(attempt), key)

    def _record_result(self, work: Work, done: Done) -> str:
        attempt, node, plan = work.attempt, work.node, work.plan
        outcome = VisitResult(
            outcome="success" if done.error is None else "failure",
            decision=done.result.decision,
            report=done.result.data,
            attempt=attempt.number,
        )
        tries = len(work.history.open_tries(attempt.node))
        delay_s = next_try_delay_s(node, tries, outcome)
        if delay_s is None:
            loops = work.history.progress.state.loops
            routed: dict[str, Any] = {
                "selection": msgspec.to_builtins(route(plan.workflow, node.key, outcome, plan.inputs, loops))
            }
        else:
            routed = {"retry_after_s": delay_s}
        key = self.world.keys.child(work.delivery)
        status = "completed" if done.error is None else "failed"
        result = AgentResult(
            key,
            status="completed" if done.error is None else "failed",
            decision=done.result.decision,
            result=done.result.data,
            error=done.error,
            metadata=routed,
        )
        report = self._report_of(work, done, self.world.keys.child(key))
        events = [self.event(NodeStatusChangedEvent, node.key, old_status="running", new_status=status)]
        if done.error is not None:
            events.append(self.event(NodeErrorEvent, node.key, node_title=node.key, message=done.error))
        below = [artifact_of_event(self.world.keys.child(work.delivery), event) for event in events]
        where = (plan.run, node.key, attempt.number, 0)
        claims = [Claim(*where, RESULT, key)]
        if done.error is None:
            claims.append(Claim(*where, REPORT, report.key))
        self._append([result, report, *below], claims)
        return status

    def _report_of(self, work: Work, done: Done, key: ArtifactKey) -> Report:
        _, artifact_id = self.world.store.reserve_ids(work.plan.run, 0, 1)
        kind = Report if done.error is None else Log
        return kind(
            key,
            text=done.result.report if done.error is None else done.error,
            content_type=done.result.content_type if done.error is None else "text",  # type: ignore[arg-type]
            artifact_id=artifact_id,
            run_node_id=work.run_node_id,
            node_key=work.node.key,
            attempt=work.attempt.number,
            created_at=instant_of_ms(key.time_ms),
            context_manifest=done.manifest,
        )

    def _record_cancelled(self, work: Work) -> str:
        key = self.world.keys.child(work.delivery)
        stopped = artifact_of_event(
            self.world.keys.child(work.delivery), self.event(StopAgentEvent, work.node.key, reason="cancelled")
        )
        claim = Claim(work.plan.run, work.node.key, work.attempt.number, 0, RESULT, key)
        self._append([AgentResult(key, status="cancelled", error="the run was cancelled"), stopped], [claim])
        return "cancelled"

    def _close(self, plan: Plan, history: History, status: str) -> None:
        with self.world.store.read() as reader:
            row = reader.find_run(plan.run)
        if row is not None and row.status != "running":
            return
        nodes = history.progress.state.nodes.values()
        event = self.event(
            GoalCompletedEvent,
            None,
            final_summary=status,
            total_nodes_completed=sum(node.status == "completed" for node in nodes),
            total_nodes_failed=sum(node.status == "failed" for node in nodes),
            execution_time_ms=self.world.clock() - plan.run.time_ms,
        )
        claim = Claim(plan.run, "", 0, 0, "goal", self.world.keys.child(plan.agents))
        self._append([artifact_of_event(claim.key, event)], [claim])
        self.world.seal(plan.run, status)

    # -- the rest -----------------------------------------------------------------------------------------------------

    async def _unless_cancelled(self, run: str, work: Work) -> Done:
        """Perform the work; stop it when the run is cancelled meanwhile, or when its process died too often over it."""
        if len(work.attempt.deliveries) > MAX_DELIVERIES:
            return Done(ProviderResult(), error=f"its process died {MAX_DELIVERIES} times during this attempt")
        task: asyncio.Task[Done] = asyncio.ensure_future(self._perform(work, self))
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=CANCEL_POLLING_S)
                if not task.done() and await asyncio.to_thread(self.is_cancelled, work.plan.run):
                    raise Cancelled
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    def is_cancelled(self, run: ArtifactKey) -> bool:
        with self.world.store.read() as reader:
            return reader.find_claim(run, "", 0, 0, "cancel") is not None

    def _run_node_id(self, attempt: Attempt) -> int:
        with self.world.store.read() as reader:
            number = read_request(reader, attempt.request).run_node_id
        assert isinstance(number, int)
        return number


def _previous(attempt: Attempt) -> dict[str, Any]:
    result = attempt.result
    return {
        "key": attempt.request.text,
        "status": None if result is None else result.status,
        "error": result.error if result is not None and isinstance(result.error, str) else None,
        "result": None if attempt.result_key is None else attempt.result_key.text,
    }
