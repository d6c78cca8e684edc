"""The rule that puts a prompt together from a template's output and its contributions."""

from __future__ import annotations

from typing import Any

import pytest

import sapwood
from sapwood.core.prompt import Contribution, Contributor, PromptContext, assemble_prompt, gather_contributions


class Repeat:
    def __init__(self, name: str, order: int) -> None:
        self.name = name
        self.order = order

    def contribute(self, context: PromptContext) -> str:
        return f"{self.name} saw {context.node}"


def test_contributions_follow_the_output_by_order_and_name() -> None:
    parts = [Contribution("b", "B", 5), Contribution("a", "A", 5), Contribution("z", "Z", -1)]
    assert assemble_prompt("out\n", parts) == "out\n\n\nZ\n\nA\n\nB"
    assert assemble_prompt("out", []) == "out"


def test_a_handoff_entry_travels_beside_the_prompt() -> None:
    assert assemble_prompt("out", [Contribution("entry", "envelope", slot="context")]) == "out"


def test_contributors_are_asked_once_and_put_in_order() -> None:
    contributors: list[Contributor] = [Repeat("late", 2), Repeat("early", 1)]
    given: list[Contribution | Contributor] = [*contributors, Contribution("fixed", "text")]
    gathered = gather_contributions(given, PromptContext("this", "tpl.a.b", {}))
    assert [one.text for one in gathered] == ["text", "early saw this", "late saw this"]


@pytest.mark.parametrize(
    "values",
    [
        {"name": "", "text": "t"},
        {"name": 3, "text": "t"},
        {"name": "n", "text": None},
        {"name": "n", "text": "t", "order": True},
        {"name": "n", "text": "t", "slot": "x"},
    ],
)
def test_a_contribution_that_exists_is_valid(values: dict[str, Any]) -> None:
    with pytest.raises(sapwood.InvalidArtifact):
        Contribution(**values)
