"""What a call may still use: the limits of its node, of every node around it, and of the run, as recorded so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from sapwood.core.artifacts import EventArtifact, MessageStreamArtifact
from sapwood.core.codec import from_record
from sapwood.core.events import GraphEvent, NodeStreamDeltaEvent, NodeThoughtDeltaEvent, ToolCallEvent
from sapwood.core.keys import ArtifactKey
from sapwood.core.limits import NOTHING, Budget, Usage, has_limits, total, usage_of
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import AgentNode, Limits, Node, Price, Workflow
from sapwood.ports import Clock, Reader
from sapwood.runtime.history import Attempt, History, Plan
from sapwood.runtime.roles import OF_RUN


class Meter:
    """Counts what one call uses while it uses it; raises LimitReached the moment it is too much."""

    def __init__(self, budgets: Iterable[Budget], price: Price | None, clock: Clock) -> None:
        self.budgets = tuple(budgets)
        self.usage = NOTHING
        self._price = price
        self._clock = clock
        self._tool_calls: set[str] = set()

    @property
    def deadline_ms(self) -> float | None:
        """Return when the first of the limits on time is reached."""
        return min((one.deadline_ms for one in self.budgets if one.deadline_ms is not None), default=None)

    def see(self, event: GraphEvent) -> None:
        """Count an event that came out of the call."""
        used = streamed(event, self._tool_calls)
        if used != NOTHING:
            self.usage += used
            self.check()

    def end(self, result: ProviderResult) -> None:
        """Count the answer; its own number of tokens stands for those that were streamed."""
        self.usage = usage_of(result, len(self._tool_calls), self._price)
        self.check()

    def check(self) -> None:
        """Raise LimitReached if a limit is passed now."""
        for budget in self.budgets:
            budget.check(self.usage, self._clock())

    def check_time(self) -> None:
        """Raise LimitReached if a limit on time is passed now; the others are checked where something is counted."""
        for budget in self.budgets:
            budget.check_time(self._clock())


def open_meter(reader: Reader, plan: Plan, history: History, attempt: Attempt, clock: Clock) -> Meter:
    """Return the meter of the call that is about to be made."""
    level = history.level_of(attempt.node)
    node = level.workflow.node(attempt.node)
    return Meter(_budgets(reader, plan, history, node, clock), _price(node, level.workflow, plan.workflow), clock)


def _budgets(reader: Reader, plan: Plan, history: History, node: Node, clock: Clock) -> Iterator[Budget]:
    def budget(scope: str, limits: Limits, started_ms: int, attempts: Iterable[Attempt]) -> Iterator[Budget]:
        if has_limits(limits):
            used = total(usage for one in attempts for usage in _used(reader, one))
            yield Budget(scope, limits, started_ms + history.paused_ms(started_ms, clock()), used)

    everything = [one for tried in history.attempts.values() for one in tried]
    tries = history.open_tries(node.key)
    inner = (one for one in everything for own in tries if own.request.is_ancestor_of(one.request))
    yield from budget(f"node {node.key}", node.limits, tries[0].request.time_ms, chain(tries, inner))
    inside = history.homes[node.key]
    while inside != OF_RUN:
        opened = history.open_tries(inside)[-1].request
        for limits in (history.node(inside).limits, history.levels[inside].workflow.limits):
            below = (one for one in everything if opened.is_ancestor_of(one.request))
            yield from budget(f"node {inside}", limits, opened.time_ms, below)
        inside = history.homes[inside]
    yield from budget("the run", plan.workflow.limits, plan.run.time_ms, everything)


def _used(reader: Reader, attempt: Attempt) -> Iterator[Usage]:
    """Yield what the attempt's result says, and what is recorded of deliveries that their process did not survive."""
    known = {} if attempt.result is None else attempt.result.metadata
    yield Usage(known.get("tokens", 0), known.get("steps", 0), known.get("cost", 0.0))
    ended_in = None if attempt.result_key is None else attempt.result_key.parent
    for delivery in attempt.deliveries.values():
        if delivery != ended_in:
            yield from _recorded(reader, delivery)


def _recorded(reader: Reader, delivery: ArtifactKey) -> Iterator[Usage]:
    calls: set[str] = set()
    for record in reader.load_kinds(delivery, [EventArtifact.__name__, MessageStreamArtifact.__name__]):
        event = from_record(record)
        if isinstance(event, EventArtifact):
            yield _counted(event.type, event.payload.get("tool_call_id"), event.payload.get("token_count"), calls)


def streamed(event: GraphEvent, calls: set[str]) -> Usage:
    """Return what an event says was used; a tool call counts once, however many events it has."""
    match event:
        case ToolCallEvent():
            return _counted(event.type, event.tool_call_id, None, calls)
        case NodeStreamDeltaEvent() | NodeThoughtDeltaEvent():
            return _counted(event.type, None, event.token_count, calls)
        case _:
            return NOTHING


def _counted(kind: str, call_id: object, tokens: object, calls: set[str]) -> Usage:
    if kind == ToolCallEvent.__name__:
        name = call_id if isinstance(call_id, str) else f"#{len(calls)}"
        is_new = name not in calls
        calls.add(name)
        return Usage(steps=int(is_new))
    is_delta = kind in (NodeStreamDeltaEvent.__name__, NodeThoughtDeltaEvent.__name__)
    return Usage(tokens=tokens) if is_delta and isinstance(tokens, int) else NOTHING


def _price(node: Node, *workflows: Workflow) -> Price | None:
    """Return the price of the node's model, else of its provider, where one is configured."""
    if not isinstance(node, AgentNode):
        return None
    names = (str(node.options.get("model", "")), node.provider)
    return next((flow.prices[name] for flow in workflows for name in names if name in flow.prices), None)
