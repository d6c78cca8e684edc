"""Nodes inside nodes: a key such as `feature.draft` -> the workflow that the node stands in, and the node."""

from __future__ import annotations

from collections.abc import Iterator

from sapwood.core.workflow import Node, SpawnNode, Workflow, WorkflowNode


def find_node(workflow: Workflow, key: str) -> tuple[Workflow, Node] | None:
    """Return the node with this key and its workflow; a child of a spawn node, by whatever name, is its `each`."""
    for node in workflow.nodes:
        if node.key == key:
            return workflow, node
    for node in workflow.nodes:
        if key.startswith(f"{node.key}."):
            return _find_inside(workflow, node, key[len(node.key) + 1 :])
    return None


def all_keys(workflow: Workflow) -> Iterator[str]:
    """Yield the keys of all nodes, those of inner workflows too; a spawn's children are `<node>.*`."""
    for node in workflow.nodes:
        yield node.key
        each = node.each if isinstance(node, SpawnNode) else None
        if each is not None:
            yield f"{node.key}.*"
        inner = node if isinstance(node, WorkflowNode) else each
        if isinstance(inner, WorkflowNode):
            place = node.key if each is None else f"{node.key}.*"
            yield from (f"{place}.{key}" for key in all_keys(inner.definition))


def _find_inside(workflow: Workflow, node: Node, rest: str) -> tuple[Workflow, Node] | None:
    match node:
        case WorkflowNode():
            return find_node(node.definition, rest)
        case SpawnNode():
            _, dot, inner = rest.partition(".")
            return _find_inside(workflow, node.each, inner) if dot else (workflow, node.each)
    return None
