"""Frames: names of children, keys inside a graph, and what their texts may refer to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.frames import Frame, fan_out, items_of, names_of, sub_workflow
from sapwood.core.nodekey import is_node_key
from sapwood.core.workflow import AgentNode, Edge, SpawnNode, Workflow, WorkflowNode, WriteFileNode
from sapwood.errors import SpawnRefused

EACH = AgentNode(key="tasks", template="tpl.agent.task")
SPAWN = SpawnNode(key="tasks", each=EACH)
OUTER = Frame(Workflow(name="outer", nodes=(SPAWN,)), {"who": "you", "list": [1]})
ITEMS = st.lists(st.one_of(st.none(), st.integers(), st.fixed_dictionaries({"name": st.text(max_size=200)})))


@given(ITEMS)
def test_every_item_has_a_name_of_its_own_that_makes_a_valid_key(items: list[object]) -> None:
    names = names_of(SPAWN, items)
    assert len(set(names)) == len(items)
    for name in names:
        assert is_node_key(f"tasks.{name}")
        assert "." not in name


def test_an_item_without_a_usable_name_has_its_number() -> None:
    assert names_of(SPAWN, [{"name": "a"}, 7, {"name": "…"}, {"name": "a"}, {"name": 5}]) == ["a", "2", "3", "a-2", "5"]


def test_children_go_on_counting_and_are_told_their_item() -> None:
    frame = fan_out(OUTER, SPAWN, ["a", "b"], [{"x": 1}, 2])
    assert [node.key for node in frame.workflow.nodes] == ["tasks.a", "tasks.b"]
    assert [frame.sequence_index(node.key) for node in frame.workflow.nodes] == [1, 2]
    assert frame.scope("tasks.b") == {"inputs": OUTER.inputs, "item": 2, "index": 2, "name": "b"}


def test_the_keys_of_a_sub_workflow_begin_with_its_node() -> None:
    definition = Workflow(
        name="inner",
        nodes=(EACH, WriteFileNode(key="copy", source="tasks", output="docs/x.md")),
        edges=(Edge(source="tasks", target="copy"),),
    )
    node = WorkflowNode(key="sub", workflow="inner", definition=definition)
    frame = sub_workflow(OUTER, node, {"topic": "keys"})
    assert [one.key for one in frame.workflow.nodes] == ["sub.tasks", "sub.copy"]
    assert (frame.workflow.edges[0].source, frame.workflow.edges[0].target) == ("sub.tasks", "sub.copy")
    assert frame.workflow.node("sub.copy").source == "sub.tasks"  # type: ignore[union-attr]
    assert frame.scope("sub.copy") == {"inputs": {"topic": "keys"}}


def test_a_key_that_would_be_too_long_is_refused() -> None:
    node = WorkflowNode(key="s" * 100, workflow="inner", definition=Workflow(name="i", nodes=(agent("x" * 60),)))
    with pytest.raises(SpawnRefused, match="longer than 128"):
        sub_workflow(OUTER, node, {})


def test_a_key_that_leaves_no_room_for_children_is_refused() -> None:
    with pytest.raises(SpawnRefused, match="leaves 7 characters"):
        names_of(SpawnNode(key="s" * 120, each=EACH), [1])


def agent(key: str) -> AgentNode:
    return AgentNode(key=key, template="tpl.agent.x")


def test_items_are_the_list_itself_or_where_one_is() -> None:
    written = SpawnNode(key="tasks", each=EACH, items=("${inputs.who}", 2))
    assert items_of(OUTER, written, None) == ["you", 2]
    assert items_of(OUTER, SpawnNode(key="tasks", each=EACH, items="inputs.list"), None) == [1]
    assert items_of(OUTER, SPAWN, {"items": ["a"]}) == ["a"]
    reports: list[object] = [None, [], "text", {"items": "abc"}]
    for report in reports:
        with pytest.raises(SpawnRefused, match="expected a list"):
            items_of(OUTER, SPAWN, report)
