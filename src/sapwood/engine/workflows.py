"""The three workflows every run is made of: graph -> node -> call. What a node does is data, told by the steps.

Replay matches steps by the order in which they start, so: each node is a workflow of its own and sequential inside;
step names carry the node and the attempt; "who finished first" is asked only through `wait_first` over sorted handles;
ids come from the workflow's own id; nothing random and no clock in a body. A child's id carries the attempt, because a
second visit under the same id would silently return the first one's result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from dbos import DBOS, SetWorkflowID, WorkflowHandleAsync

from sapwood.errors import EngineStuck
from sapwood.ports import Steps

GRAPH, NODE, CALL = "sapwood.graph", "sapwood.node", "sapwood.call"
CALL_SUFFIX = "/call"

GraphWorkflow = Callable[[str], Coroutine[Any, Any, str]]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

is_in_step: ContextVar[bool] = ContextVar("is_in_step", default=False)
"""Set while a step runs, and in every task that it starts."""


def register(steps: Steps, polling_s: float) -> GraphWorkflow:
    """Register the three workflows over `steps`; return the one that runs a whole graph."""

    @DBOS.workflow(name=CALL)
    async def call(run: str) -> str:
        """One try to do the node's work: the only part that may wait for a free place or a provider."""
        node, attempt = visit_of(run, own_id().removesuffix(CALL_SUFFIX))
        return await DBOS.run_step_async({"name": f"call:{node}#{attempt}"}, _step(steps.call), run, node, attempt)

    @DBOS.workflow(name=NODE)
    async def node_workflow(run: str) -> str:
        """One attempt of one node: claim it, call."""
        me = own_id()
        node, attempt = visit_of(run, me)
        await DBOS.run_step_async({"name": f"claim:{node}#{attempt}"}, _step(steps.claim), run, node, attempt)
        child = await start(me + CALL_SUFFIX, call, run)
        return await child.get_result(polling_interval_sec=polling_s)

    @DBOS.workflow(name=GRAPH)
    async def graph(run: str) -> str:
        """The whole run: start what may start, wait for whoever ends first, and ask again."""
        me = own_id()
        running: dict[str, WorkflowHandleAsync[str]] = {}
        seen: set[str] = set()
        turn = 0
        while True:
            turn += 1
            visits = await DBOS.run_step_async({"name": f"route:{turn}"}, _step(steps.route), run, sorted(running))
            for visit in sorted(set(visits)):
                if visit in seen:  # it would end at once with its old result, for ever
                    raise EngineStuck(run, visit)
                seen.add(visit)
                running[visit] = await start(f"{me}.{visit}", node_workflow, run)
            if not running:
                return await DBOS.run_step_async({"name": "finish"}, _step(steps.finish), run)
            first = await first_of(running, polling_s)
            await running.pop(first).get_result(polling_interval_sec=polling_s)

    return graph


def _step(step: Callable[Arguments, Awaitable[Result]]) -> Callable[Arguments, Coroutine[Any, Any, Result]]:
    @wraps(step)
    async def told_apart(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        token = is_in_step.set(True)
        try:
            return await step(*args, **kwargs)
        finally:
            is_in_step.reset(token)

    return told_apart


async def first_of(running: dict[str, WorkflowHandleAsync[str]], polling_s: float) -> str:
    """Return who of `running` ended first. A single one needs no question: its result is awaited directly."""
    if len(running) == 1:
        return next(iter(running))
    handles = {running[visit].workflow_id: visit for visit in sorted(running)}
    ended = await DBOS.wait_first_async([running[visit] for visit in handles.values()], polling_interval_sec=polling_s)
    return handles[ended.workflow_id]


async def start(
    workflow_id: str, workflow: Callable[[str], Coroutine[Any, Any, str]], run: str
) -> WorkflowHandleAsync[str]:
    with SetWorkflowID(workflow_id):
        return await DBOS.start_workflow_async(workflow, run)


def visit_of(run: str, workflow_id: str) -> tuple[str, int]:
    """Return the node and the attempt in a child's id `<run>.<node>.<attempt>`."""
    node, _, attempt = workflow_id.removeprefix(run + ".").rpartition(".")
    return node, int(attempt)


def own_id() -> str:
    workflow_id = DBOS.workflow_id
    assert workflow_id is not None
    return workflow_id
