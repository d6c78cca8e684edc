"""A workflow becomes plain data and comes back equal; nothing in it can change."""

from __future__ import annotations

import json

import msgspec
import pytest

from sapwood.core.canonical import canonical_json
from sapwood.core.workflow import (
    AgentNode,
    Backoff,
    CommandNode,
    Edge,
    GateNode,
    Input,
    JoinNode,
    Limits,
    SpawnNode,
    Workflow,
    WorkflowNode,
    WriteFileNode,
    workflow_from_dict,
    workflow_hash,
    workflow_to_dict,
)

INNER = Workflow(name="inner", nodes=(AgentNode(key="only", template="tpl.agent.single.prompt"),))
EVERYTHING = Workflow(
    name="everything",
    description="one node of each kind",
    inputs=(Input(name="topic", required=True), Input(name="depth", type="integer", default=2)),
    limits=Limits(time_s=60.0, tokens=1000, steps=10, cost=0.5),
    phases={"2": {"narrative_cap": 10}},
    nodes=(
        AgentNode(key="a", template="tpl.agent.single.prompt", args={"x": [1.0, {"y": None}]}, phase=2),
        CommandNode(key="c", run=("make", "test"), evidence="tests", limits=Limits(time_s=5.0)),
        WriteFileNode(key="w", output="docs/a.md", content="hello"),
        GateNode(key="g", ask="Ship it?"),
        SpawnNode(key="s", each=AgentNode(key="each", template="tpl.agent.team.task"), items=("one", {"name": "two"})),
        JoinNode(key="j", output="docs/all.md", ingest=True),
        WorkflowNode(key="n", workflow="inner", definition=INNER, inputs={"topic": "${inputs.topic}"}),
    ),
    edges=(
        Edge(source="a", target="c", priority=2),
        Edge(source="a", target="w", priority=1, when="report.score > 0.5"),
        Edge(source="a", target="g", priority=1, on="failure"),
        Edge(source="c", target="a", max_loops=3),
    ),
)


def test_a_workflow_comes_back_equal_from_canonical_json() -> None:
    stored = canonical_json(workflow_to_dict(EVERYTHING))
    again = workflow_from_dict(json.loads(stored))
    assert again == EVERYTHING
    assert canonical_json(workflow_to_dict(again)) == stored
    assert workflow_hash(again) == workflow_hash(EVERYTHING)


def test_every_field_is_written_out_and_unknown_ones_are_refused() -> None:
    data = workflow_to_dict(EVERYTHING)
    assert set(data["nodes"][0]) == {"kind", *AgentNode.__struct_fields__}
    assert data["edges"][0] == {"from": "a", "to": "c", "on": "success", "priority": 2, "when": None, "max_loops": None}
    with pytest.raises(msgspec.ValidationError):
        workflow_from_dict({**data, "colour": "green"})


def test_nothing_in_a_workflow_can_be_set() -> None:
    with pytest.raises(AttributeError):
        EVERYTHING.name = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        EVERYTHING.nodes[0].key = "other"  # type: ignore[misc]


def test_edges_are_asked_by_priority_then_in_the_order_of_the_file() -> None:
    assert EVERYTHING.edges_from("a") == (1, 2, 0)
    assert EVERYTHING.edges_into("a") == (3,)
    assert EVERYTHING.edges_from("j") == ()
    assert EVERYTHING.sequence_index("c") == 1
    assert EVERYTHING.node("c").kind == "command"
    assert EVERYTHING.phase_override(2) == {"narrative_cap": 10}


@pytest.mark.parametrize(("retry", "seconds"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (5000, 5.0)])
def test_backoff_grows_up_to_its_maximum(retry: int, seconds: float) -> None:
    assert Backoff(first_s=1.0, factor=2.0, max_s=5.0).delay_s(retry) == seconds
