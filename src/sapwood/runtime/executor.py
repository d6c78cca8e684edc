"""The steps of a run on the store: each looks for its unique row first, and does its work only when there is none.

A call in flight when the process dies is made again, in a delivery of its own; a result that was recorded is never
made again, whatever the engine remembers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from sapwood.core.artifacts import EndStatus
from sapwood.core.keys import ArtifactKey
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import GateNode, SpawnNode, WorkflowNode
from sapwood.errors import SapwoodError, StoreError
from sapwood.outlast import outlast
from sapwood.runtime.histories import Histories
from sapwood.runtime.history import Attempt, History, Plan
from sapwood.runtime.journal import Journal
from sapwood.runtime.node_kinds import perform
from sapwood.runtime.products import add_products
from sapwood.runtime.shielded import shielded
from sapwood.runtime.watch import POLLING_S, Watch
from sapwood.runtime.world import Done, Work, World

MAX_DELIVERIES: Final = 10  # an attempt whose process died that often is what kills it


class Cancelled(Exception):
    """The run was cancelled while this call was in flight."""


class Paused(Exception):
    """The run was paused while this call waited for a person."""


class Executor:
    """`ports.Steps` over a store."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.journal = Journal(world)
        self._histories = Histories(world.store.artifacts)
        self._watch = Watch(world.store.artifacts)

    async def route(self, run: str, running: Sequence[str]) -> list[str]:
        plan = self._histories.plan(run)
        while True:
            history = await asyncio.to_thread(self._histories.load, run)
            if history.is_cancelled or history.is_paused:
                return []
            for node, visits in history.skipped:
                if (node, visits) not in history.pruned:
                    await shielded(self.journal.prune, plan, history, node, visits)
            ready, unopened = _ready(history)
            if not unopened:
                return [visit for visit in ready if visit not in running]
            for node in unopened:
                await shielded(self.journal.open_attempt, plan, history, node, history.next_attempt(node))

    async def claim(self, run: str, node: str, attempt: int) -> None:
        history = await asyncio.to_thread(self._histories.load, run)
        if not any(one.number == attempt for one in history.open_tries(node)):
            await shielded(self.journal.open_attempt, self._histories.plan(run), history, node, attempt)

    async def call(self, run: str, node: str, attempt: int) -> str:
        history = await asyncio.to_thread(self._histories.load, run)
        one = history.attempts[node][attempt - 1]
        if one.result is not None:
            return one.result.status
        plan = self._histories.plan(run)
        if not await self._is_its_turn(plan, history, one):
            return "paused"
        work = await shielded(self.journal.open_delivery, plan, history, one)
        try:
            done = await self._unless_stopped(work)
        except Cancelled:
            return await shielded(self.journal.end_cancelled, work.plan, work.attempt)
        except Paused:
            return "paused"
        except StoreError:  # nothing can be said of the attempt; it stays to be made again
            raise
        except SapwoodError as error:
            done = Done.failed(error)
        return await shielded(self._end, work, done)

    def _end(self, work: Work, done: Done) -> str:
        return self.journal.end_attempt(work, add_products(work, done, self.journal))

    async def finish(self, run: str) -> str:
        history = await asyncio.to_thread(self._histories.load, run)
        status: EndStatus
        if history.is_cancelled:
            status = "cancelled"
        elif not history.progress.is_finished:
            return "paused"
        else:
            status = "completed" if history.progress.outcome == "success" else "failed"
        ended = await shielded(self.journal.close_run, self._histories.plan(run), history, status)
        self._histories.forget(run)
        self.journal.forget(ArtifactKey(run))
        return ended

    async def _is_its_turn(self, plan: Plan, history: History, attempt: Attempt) -> bool:
        """Wait as long as a retry has to, from the recorded end of the try before it; tell whether to go on then."""
        tries = [one for one in history.open_tries(attempt.node) if one.number < attempt.number]
        before = tries[-1] if tries else None
        if before is None or before.result_key is None:
            return True
        due_ms = before.result_key.time_ms + 1000 * (before.retry_after_s or 0.0)
        while (rest_s := (due_ms - self.world.store.clock()) / 1000) > 0:
            await asyncio.sleep(min(rest_s, POLLING_S))
            said = await self._watch.said(plan.run)
            if said.is_cancelled or said.is_paused:
                return said.is_cancelled
        return True

    async def _unless_stopped(self, work: Work) -> Done:
        """Perform the work; stop it when the run is cancelled, a limit on time is reached, or it kills its process."""
        is_gate = isinstance(work.node, GateNode)  # a person may take longer than many processes live
        if len(work.attempt.deliveries) > MAX_DELIVERIES and not is_gate:
            return Done(ProviderResult(), error=f"its process died {MAX_DELIVERIES} times during this attempt")
        work.meter.check()
        if (await self._watch.said(work.plan.run)).is_cancelled:
            raise Cancelled
        task: asyncio.Task[Done] = asyncio.ensure_future(perform(work, self.journal))
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=self._next_look_s(work))
                if not task.done():
                    work.meter.check_time()
                    said = await self._watch.said(work.plan.run)
                    if said.is_cancelled:
                        raise Cancelled
                    if said.is_paused and is_gate:
                        raise Paused
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await outlast(task)

    def _next_look_s(self, work: Work) -> float:
        deadline_ms = work.meter.deadline_ms
        if deadline_ms is None:
            return POLLING_S
        return min(POLLING_S, max(0.001, (deadline_ms - self.world.store.clock()) / 1000))


def _ready(history: History) -> tuple[list[str], list[str]]:
    """Return the visits that may be at work now, and the nodes that must first open the graph inside them.

    A node with a graph inside is itself called last, when everything in there has ended.
    """
    ready, unopened = [], []
    for level in history.levels.values():
        for key in level.progress.ready[: level.frame.parallel]:
            inside = history.levels.get(key)
            tries = history.open_tries(key)
            if isinstance(level.workflow.node(key), SpawnNode | WorkflowNode) and (not tries or tries[-1].result):
                unopened.append(key)
            elif inside is None or inside.progress.is_finished:
                ready.append(f"{key}.{history.next_attempt(key)}")
    return ready, unopened
