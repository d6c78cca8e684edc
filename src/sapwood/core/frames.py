"""Frames: the graphs of one run. The outermost is the workflow; a spawn or a workflow node opens one inside another.

Every node of a run has one key of its own: inside a frame it is `<node that opened it>.<name>`. A frame is an ordinary
Workflow under those keys, so routing, schedule and handoff work in it as they do outside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from sapwood.core.inputs import resolve_inputs
from sapwood.core.nodekey import MAX_NODE_KEY_CHARS
from sapwood.core.substitution import substitute
from sapwood.core.workflow import Edge, Node, SpawnNode, Workflow, WorkflowNode
from sapwood.errors import SpawnRefused

MIN_NAME_CHARS: Final = 12  # a number of five digits, and a sixth to tell two equal names apart
_NOT_IN_NAME = re.compile("[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Frame:
    """One graph with the values that its texts refer to. `items` are those of a fan-out, by the child's key.

    `parallel` says how many of its nodes may be at work at one time, None that there is no bound.
    """

    workflow: Workflow
    inputs: Mapping[str, Any]
    items: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    first_index: int = 0
    parallel: int | None = None

    def scope(self, node: str) -> dict[str, Any]:
        """Return what `${…}` may refer to in the texts of this node."""
        return {"inputs": self.inputs, **self.items.get(node, {})}

    def sequence_index(self, node: str) -> int:
        """Return the node's place: in the file, or for what was spawned beyond all places of the frame around it."""
        return self.first_index + self.workflow.sequence_index(node)

    def name_of(self, node: str) -> str:
        """Return the name of a fan-out's child, "" for other nodes."""
        return str(self.items.get(node, {}).get("name", ""))

    @property
    def end_index(self) -> int:
        return self.first_index + len(self.workflow.nodes)


def sub_workflow(outer: Frame, node: WorkflowNode, inputs: Mapping[str, Any]) -> Frame:
    """Return the frame of a workflow node whose inputs have been resolved."""
    workflow = _prefixed(node.definition, f"{node.key}.")
    longest = max((one.key for one in workflow.nodes), key=len)
    if len(longest) > MAX_NODE_KEY_CHARS:
        raise SpawnRefused(node.key, f"the key {longest} would be longer than {MAX_NODE_KEY_CHARS} characters")
    return Frame(workflow, inputs, first_index=outer.end_index)


def inputs_of(outer: Frame, node: WorkflowNode) -> dict[str, Any]:
    """Return what the workflow node gives to its workflow; raise InvalidInputs when that does not fit."""
    return resolve_inputs(node.definition, substitute(node.inputs, outer.scope(node.key)))


def fan_out(outer: Frame, node: SpawnNode, names: Sequence[str], items: Sequence[Any]) -> Frame:
    """Return the frame of a spawn node: one child for each item, and no edges."""
    keys = [f"{node.key}.{name}" for name in names]
    children = tuple(msgspec.structs.replace(node.each, key=key) for key in keys)
    scopes = {
        key: {"item": item, "index": place, "name": name}
        for place, (key, name, item) in enumerate(zip(keys, names, items, strict=True), 1)
    }
    around = outer.workflow
    workflow = Workflow(name=node.key, nodes=children, phases=around.phases, prices=around.prices)
    return Frame(workflow, outer.inputs, scopes, outer.end_index, node.parallel)


def items_of(outer: Frame, node: SpawnNode, report: Any) -> list[Any]:
    """Return the items of a spawn node; `report` is the structured result that `report.…` means."""
    if isinstance(node.items, str):
        found: Any = {"report": report, "inputs": outer.inputs}
        for step in node.items.split("."):
            found = found.get(step) if isinstance(found, Mapping) else None
    else:
        found = substitute(list(node.items), outer.scope(node.key))
    if not isinstance(found, list | tuple):
        raise SpawnRefused(node.key, f"{node.items} is {type(found).__name__}, expected a list")
    if len(found) > node.max_items:
        raise SpawnRefused(node.key, f"{len(found)} items, max_items is {node.max_items}")
    return list(found)


def names_of(node: SpawnNode, items: Sequence[Any]) -> list[str]:
    """Return a name for each item: its `name` as far as a key can hold it, else its number; each one once."""
    room = MAX_NODE_KEY_CHARS - len(node.key) - 1
    if room < MIN_NAME_CHARS:
        raise SpawnRefused(node.key, f"its key leaves {room} characters for the names of its children")
    names: list[str] = []
    taken: set[str] = set()
    for number, item in enumerate(items, 1):
        given = item.get("name") if isinstance(item, Mapping) else None
        name = _NOT_IN_NAME.sub("-", str(given)).strip("-_") if given is not None else ""
        name = name[: room - 6] or str(number)
        again = 1
        while (unique := name if again == 1 else f"{name}-{again}") in taken:
            again += 1
        taken.add(unique)
        names.append(unique)
    return names


def _prefixed(workflow: Workflow, prefix: str) -> Workflow:
    nodes = tuple(_renamed(node, prefix) for node in workflow.nodes)
    edges = tuple(_moved(edge, prefix) for edge in workflow.edges)
    return msgspec.structs.replace(workflow, nodes=nodes, edges=edges)


def _renamed(node: Node, prefix: str) -> Node:
    source = getattr(node, "source", None)
    more = {} if source is None else {"source": prefix + source}
    return msgspec.structs.replace(node, key=prefix + node.key, **more)


def _moved(edge: Edge, prefix: str) -> Edge:
    return msgspec.structs.replace(edge, source=prefix + edge.source, target=prefix + edge.target)
