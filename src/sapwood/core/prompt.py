"""The prompt: a template's output and the texts that contributors add to it, put together by one rule.

What is stored beside the text (template reference, arguments, contributions) rebuilds it by this rule alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from sapwood.errors import InvalidArtifact


@dataclass(frozen=True, slots=True)
class Contribution:
    """One contributor's text. Slot `context` is a handoff entry: it travels beside the prompt, not in it."""

    name: str
    text: str
    order: int = 0
    slot: Literal["prompt", "context"] = "prompt"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidArtifact("PromptContribution", f"the contributor has no name: {self.name!r}")
        if not isinstance(self.text, str):
            raise InvalidArtifact("PromptContribution", f"{self.name} contributed {type(self.text).__name__}, not text")
        if type(self.order) is not int:
            raise InvalidArtifact("PromptContribution", f"the order of {self.name} is no integer: {self.order!r}")
        if self.slot not in ("prompt", "context"):
            raise InvalidArtifact("PromptContribution", f"the slot of {self.name} is neither prompt nor context")


class Contributor(Protocol):
    """Adds text to a prompt."""

    @property
    def name(self) -> str:
        """Who contributes."""

    @property
    def order(self) -> int:
        """Where the text stands: lower is earlier."""

    def contribute(self, context: Any) -> str:
        """Return the text for this prompt."""


def gather_contributions(contributors: Iterable[Contributor], context: Any) -> tuple[Contribution, ...]:
    """Ask each contributor for its text; return them in the order in which they stand in the prompt."""
    asked = (Contribution(one.name, one.contribute(context), one.order) for one in contributors)
    return tuple(sorted(asked, key=_place))


def assemble_prompt(output: str, contributions: Iterable[Contribution]) -> str:
    """Return the template's output and after it every contribution to the prompt, by (order, name)."""
    parts = sorted((part for part in contributions if part.slot == "prompt"), key=_place)
    return "\n\n".join([output, *(part.text for part in parts)])


def _place(contribution: Contribution) -> tuple[int, str]:
    return contribution.order, contribution.name
