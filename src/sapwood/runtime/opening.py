"""What a spawn or a workflow node opens inside itself, found from what is recorded when its attempt begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sapwood.core.frames import inputs_of, items_of, names_of, sub_workflow
from sapwood.core.keys import MAX_DEPTH
from sapwood.core.schedule import selected_predecessors
from sapwood.core.workflow import Node, SpawnNode, WorkflowNode
from sapwood.errors import InvalidInputs, SpawnRefused
from sapwood.runtime.history import History, Level

# Below an opener come a request, the container in it, a request in that, its delivery, a prompt and its parts.
MAX_OPENER_DEPTH: Final = MAX_DEPTH - 8


@dataclass(frozen=True, slots=True)
class Opening:
    """The inputs of a sub-workflow, or the names and items of a fan-out."""

    inputs: dict[str, Any] | None = None
    names: tuple[str, ...] = ()
    items: list[Any] | None = None


def opening_of(node: Node, level: Level, history: History) -> Opening:
    """Return what the node opens; raise InvalidInputs or SpawnRefused when it cannot."""
    if (
        level.opener is not None
        and level.opener.depth > MAX_OPENER_DEPTH
        and isinstance(node, SpawnNode | WorkflowNode)
    ):
        raise SpawnRefused(node.key, f"graphs inside graphs deeper than artifact keys of {MAX_DEPTH} levels allow")
    match node:
        case WorkflowNode():
            inputs = inputs_of(level.frame, node)
            sub_workflow(level.frame, node, inputs)
            return Opening(inputs=inputs)
        case SpawnNode():
            items = _items(node, level, history)
            return Opening(names=tuple(names_of(node, items)), items=items)
        case _:
            return Opening()


def find_opening(node: Node, level: Level, history: History) -> Opening:
    """Return what the node opens, or nothing: its call then says why."""
    try:
        return opening_of(node, level, history)
    except (InvalidInputs, SpawnRefused):
        return Opening()


def _items(node: SpawnNode, level: Level, history: History) -> list[Any]:
    """Return the items from the first of the node's sources that has such a list."""
    refused: SpawnRefused | None = None
    sources = selected_predecessors(level.workflow, level.progress.state, node.key)
    for source in (node.source,) if node.source is not None else sources or (None,):
        tried = [] if source is None else [one for one in history.attempts_here(source) if one.report_key is not None]
        result = tried[-1].result if tried else None
        try:
            return items_of(level.frame, node, None if result is None else result.result)
        except SpawnRefused as error:
            refused = refused or error
    assert refused is not None
    raise refused
