"""A prompt and its parts: what a session and the executor both record, put together in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from sapwood.core.keys import ArtifactKey
from sapwood.core.prompt import (
    Contribution,
    Contributor,
    PromptContext,
    assemble_prompt,
    gather_contributions,
    order_context,
    render_provider_text,
)
from sapwood.core.record import Record
from sapwood.core.template import Templated
from sapwood.ports import Rendered, Templates
from sapwood.runtime.records import prompt_records


@dataclass(frozen=True, slots=True)
class Composed:
    """A rendered template with its contributions: `prompt` without the context entries, `text` with them."""

    rendered: Rendered
    parts: tuple[Contribution, ...]
    prompt: str
    text: str

    def records(
        self,
        key: ArtifactKey,
        child: Callable[[ArtifactKey], ArtifactKey],
        part: Literal["user", "system"] | None = None,
        metadata: Mapping[str, Any] = MappingProxyType({}),
    ) -> list[Record]:
        """Return the prompt at `key` and below it all that rebuilds it."""
        children = [child(key) for _ in range(len(self.parts) + 2)]
        return prompt_records(key, children, self.rendered, self.text, self.parts, part, metadata)


def compose(
    templates: Templates,
    template: str | Templated,
    args: Mapping[str, Any],
    contributions: Iterable[Contribution | Contributor],
    node: str,
) -> Composed:
    """Render the template and ask every contributor for its text."""
    rendered = templates.render(template, args)
    context = PromptContext(node, rendered.version.template_id.text, args)
    parts = gather_contributions(contributions, context)
    prompt = assemble_prompt(rendered.text, parts)
    return Composed(rendered, parts, prompt, render_provider_text(prompt, order_context(parts)))
