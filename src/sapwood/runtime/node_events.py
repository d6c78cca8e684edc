"""The graph events of a node's life, as the runtime tells them: added, branched, tried again, taken over, ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from sapwood.core.artifacts import AgentRequest
from sapwood.core.canonical import canonical_json
from sapwood.core.events import (
    GraphEvent,
    NodeAddedEvent,
    NodeBranchedEvent,
    NodeErrorEvent,
    NodeStatusChangedEvent,
    NodeUpdatedEvent,
)
from sapwood.core.routing import Selection
from sapwood.runtime.history import History

MAX_GOAL_CHARS = 1000


class NewEvent(Protocol):
    """Makes an event that happens now."""

    def __call__(self, kind: type[GraphEvent], node: str | None, /, **payload: Any) -> GraphEvent: ...


def opened(event: NewEvent, request: AgentRequest, history: History) -> Iterator[GraphEvent]:
    """Yield what it means that an attempt begins: a new node, a new child of a fan-out, or another try."""
    name = request.node
    level, tries = history.level_of(name), history.attempts.get(name, [])
    node, home = level.workflow.node(name), history.homes[name] or None
    if not tries:
        yield event(NodeAddedEvent, name, node_title=node.description or name, node_type=node.kind, parent_node_id=home)
    else:
        updates = {"attempt": request.attempt, "visit": request.visit, "try": request.try_}
        yield event(NodeUpdatedEvent, name, updates=updates)
    if name in level.frame.items and not history.attempts_here(name):
        goal = canonical_json(level.frame.items[name]["item"]).decode()[:MAX_GOAL_CHARS]
        yield event(NodeBranchedEvent, name, original_node_id=home, new_goal=goal)
    before = tries[-1].result if tries else None
    old = "pending" if before is None else before.status
    yield event(NodeStatusChangedEvent, name, old_status=old, new_status="running", reason=f"attempt {request.attempt}")


def resumed(event: NewEvent, node: str) -> Iterator[GraphEvent]:
    """Yield what it means that an attempt was left before it ended and is taken up again."""
    why = "its process ended, or stopped waiting, before it did"
    yield event(NodeStatusChangedEvent, node, old_status="running", new_status="interrupted", reason=why)
    yield event(NodeStatusChangedEvent, node, old_status="interrupted", new_status="running", reason="taken over")


def ended(
    event: NewEvent, node: str, kind: str, error: str | None, selection: Selection | None
) -> Iterator[GraphEvent]:
    """Yield what it means that an attempt has its result: its status, its error, and the branches it opens."""
    status = "completed" if error is None else "failed"
    yield event(NodeStatusChangedEvent, node, old_status="running", new_status=status)
    if error is not None:
        yield event(NodeErrorEvent, node, node_title=node, node_type=kind, message=error)
    chosen = [one.target for one in selection.decisions if one.selected] if selection is not None else []
    for target in chosen if len(chosen) > 1 else ():
        yield event(NodeBranchedEvent, target, original_node_id=node)


def never_started(event: NewEvent, history: History) -> Iterator[GraphEvent]:
    """Yield what it means for nodes that nothing started when their run ends: they are cancelled with it."""
    for key, state in history.progress.state.nodes.items():
        if state.status == "waiting" and key not in history.attempts:
            yield event(
                NodeStatusChangedEvent, key, old_status="pending", new_status="cancelled", reason="the run ended"
            )
