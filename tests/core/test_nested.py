"""Nodes inside nodes are found by their keys."""

from __future__ import annotations

import pytest

from sapwood.core.nested import all_keys, find_node
from sapwood.core.workflow import AgentNode, SpawnNode, Workflow, WorkflowNode

DRAFT = AgentNode(key="draft", template="tpl.a.b")
INNER = Workflow(name="inner", nodes=(DRAFT,))
SUB = WorkflowNode(key="sub", workflow="inner", definition=INNER)
TASKS = SpawnNode(key="tasks", each=AgentNode(key="each", template="tpl.a.b"))
TEAMS = SpawnNode(key="teams", each=WorkflowNode(key="each", workflow="inner", definition=INNER))
OUTER = Workflow(name="outer", nodes=(SUB, TASKS, TEAMS, AgentNode(key="sub.dotted", template="tpl.a.b")))


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("sub", SUB),
        ("sub.draft", DRAFT),
        ("sub.dotted", OUTER.nodes[3]),
        ("tasks.any-name", TASKS.each),
        ("teams.one", TEAMS.each),
        ("teams.one.draft", DRAFT),
    ],
)
def test_a_node_is_found_by_its_key(key: str, found: object) -> None:
    place = find_node(OUTER, key)
    assert place is not None
    assert place[1] == found
    assert place[0] == (INNER if found is DRAFT else OUTER)


@pytest.mark.parametrize("key", ["subs", "sub.nobody", "tasks.one.two", "teams.one.nobody", ""])
def test_what_is_not_there_is_none(key: str) -> None:
    assert find_node(OUTER, key) is None


def test_all_keys_are_listed() -> None:
    expected = ["sub", "sub.draft", "tasks", "tasks.*", "teams", "teams.*", "teams.*.draft", "sub.dotted"]
    assert list(all_keys(OUTER)) == expected
