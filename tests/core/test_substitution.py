"""Substitution and outputs: values go in once, with their type, and nothing in them is looked at again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.inputs import read_input, resolve_inputs
from sapwood.core.keys import ArtifactKey
from sapwood.core.outputs import output_path, output_problem
from sapwood.core.substitution import references, substitute, substitute_text
from sapwood.core.workflow import AgentNode, Input, Workflow
from sapwood.errors import InvalidInputs

SCOPE = {"inputs": {"topic": "trees", "n": 1.0, "list": [1, "a"], "none": None}, "item": {"name": "x"}, "index": 2}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${inputs.topic}", "trees"),
        ("${inputs.list}", [1, "a"]),
        ("${inputs.none}", None),
        ("a ${inputs.topic} b", "a trees b"),
        ("${inputs.n}/${inputs.list}/${inputs.none}", '1/[1,"a"]/'),
        ("$${inputs.topic}", "${inputs.topic}"),
        ("$5 and {x} and %s", "$5 and {x} and %s"),
        ({"a": ["${item.name}", {"b": "${index}"}]}, {"a": ["x", {"b": 2}]}),
        ("${inputs.absent.more}", None),
        (7, 7),
    ],
)
def test_references_become_values(value: Any, expected: Any) -> None:
    assert substitute(value, SCOPE) == expected


def test_text_stays_text() -> None:
    assert substitute_text("${inputs.list}", SCOPE) == '[1,"a"]'


@given(st.text())
def test_what_goes_in_is_never_read_again(text: str) -> None:
    assert substitute("<${inputs.x}>", {"inputs": {"x": text}}) == f"<{text}>"


def test_references_are_known_before_the_run() -> None:
    assert list(references({"a": "${inputs.x} ${item.y.z}", "b": ["$${no}", "${nope}", "${open"]})) == [
        ("inputs", "x"),
        ("item", "y", "z"),
        (),
        (),
    ]


@pytest.mark.parametrize("output", ["x.md", "docs", "docs/", "workspace/a", "docs/../a", "docs/<x>.md", "DOCS/a", ""])
def test_an_output_elsewhere_is_a_problem(output: str) -> None:
    assert output_problem(output, ("run", "n")) is not None


def test_an_output_is_filled_in() -> None:
    run = ArtifactKey("ak:01HQXK5V8RPZM4J3NHWGC7SDFG")
    assert output_problem("docs/a_<run>_<n>.md", ("run", "n")) is None
    assert output_path("docs/a_<run>_<n>.md", run=run, visit=3) == "docs/a_01HQXK5V8RPZM4J3NHWGC7SDFG_3.md"


FLOW = Workflow(
    name="w",
    nodes=(AgentNode(key="a", template="tpl.a.b"),),
    inputs=(
        Input(name="topic", required=True),
        Input(name="n", type="integer", default=2),
        Input(name="f", type="number"),
    ),
)


def test_inputs_are_checked_all_at_once() -> None:
    assert resolve_inputs(FLOW, {"topic": "x"}) == {"topic": "x", "n": 2, "f": None}
    with pytest.raises(InvalidInputs) as caught:
        resolve_inputs(FLOW, {"topik": "x", "n": True, "f": float("nan")})
    assert len(caught.value.problems) == 4
    assert "did you mean 'topic'" in caught.value.problems[0]


@pytest.mark.parametrize(("name", "text", "value"), [(0, "3", "3"), (1, "3", 3), (2, "1.5", 1.5), (1, "x", "x")])
def test_a_word_of_the_command_line_becomes_a_value(name: int, text: str, value: Any) -> None:
    assert read_input(FLOW.inputs[name], text) == value
