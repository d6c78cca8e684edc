"""The prompt: a template's output and the texts that contributors add to it, put together by one rule.

What is stored beside the text (template reference, arguments, contributions) rebuilds it by this rule alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from sapwood.core.expect import expect, expect_each
from sapwood.core.hashing import utf8
from sapwood.errors import InvalidArtifact, WrongArgument, shown


@dataclass(frozen=True, slots=True)
class Contribution:
    """One contributor's text. Slot `context` is a handoff entry: it travels beside the prompt, not in it."""

    name: str
    text: str
    order: int = 0
    slot: Literal["prompt", "context"] = "prompt"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidArtifact("PromptContribution", f"the contributor has no name: {shown(self.name)}")
        if not isinstance(self.text, str):
            raise InvalidArtifact("PromptContribution", f"{self.name} contributed {type(self.text).__name__}, not text")
        if type(self.order) is not int:
            raise InvalidArtifact("PromptContribution", f"the order of {self.name} is no integer: {shown(self.order)}")
        if self.slot not in ("prompt", "context"):
            raise InvalidArtifact("PromptContribution", f"the slot of {self.name} is neither prompt nor context")
        utf8(self.name, "the name of a contributor")
        utf8(self.text, f"what {self.name} contributed")


@dataclass(frozen=True, slots=True)
class ProviderRunOptions:
    """How one prompt is to be run; `context` holds the handoff's entries, in order and as they are.

    `settings` are the node's `options`; `node` and `attempt` say for whom, `folder` where files may be looked for.
    """

    context: tuple[str, ...] = ()
    system_prompt: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    node: str = ""
    attempt: int = 1
    folder: str = "."


@dataclass(frozen=True, slots=True)
class PromptContext:
    """What a contributor is told of the prompt that it adds to."""

    node: str
    template_id: str
    args: Mapping[str, Any]


class Contributor(Protocol):
    """Adds text to a prompt."""

    @property
    def name(self) -> str:
        """Who contributes."""

    @property
    def order(self) -> int:
        """Where the text stands: lower is earlier."""

    def contribute(self, context: PromptContext) -> str:
        """Return the text for this prompt."""


def gather_contributions(
    given: Iterable[Contribution | Contributor], context: PromptContext
) -> tuple[Contribution, ...]:
    """Ask each contributor for its text; return all contributions in the order in which they stand in the prompt."""
    expected = "contributions, or contributors with name, order and contribute"
    asked = [_asked(one, context, expected) for one in expect_each(given, object, "contributions", expected)]
    return tuple(sorted(asked, key=_place))


def _asked(one: Contribution | Contributor, context: PromptContext, expected: str) -> Contribution:
    if isinstance(one, Contribution):
        return one
    if not all(hasattr(one, name) for name in ("name", "order", "contribute")):
        raise WrongArgument("contributions", one, expected)
    return Contribution(one.name, one.contribute(context), one.order)


def assemble_prompt(output: str, contributions: Iterable[Contribution]) -> str:
    """Return the template's output and after it every contribution to the prompt, by (order, name)."""
    parts = sorted((part for part in contributions if part.slot == "prompt"), key=_place)
    return "\n\n".join([output, *(part.text for part in parts)])


def order_context(contributions: Iterable[Contribution]) -> tuple[str, ...]:
    """Return the texts of the handoff entries among the contributions, by (order, name)."""
    return tuple(part.text for part in sorted((part for part in contributions if part.slot == "context"), key=_place))


def render_provider_text(prompt: str, context: Sequence[str]) -> str:
    """Return the text of the user part that every provider gets: the numbered entries, if any, then the prompt."""
    expect(prompt, str, "prompt", "text")
    context = expect_each(context, str, "context", "a sequence of texts")
    if not context:
        return prompt
    lines = "\n".join(f"[{number}] {entry}" for number, entry in enumerate(context, 1))
    return f"Context:\n{lines}\n\n{prompt}"


def _place(contribution: Contribution) -> tuple[int, str]:
    return contribution.order, contribution.name
