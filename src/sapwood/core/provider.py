"""What goes to a provider and what comes back: one prompt, its options, and exactly one result at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sapwood.core.workflow import Decision


@dataclass(frozen=True, slots=True)
class ProviderRunOptions:
    """How one prompt is to be run; `context` holds the handoff's envelopes, in order."""

    context: tuple[str, ...] = ()
    system_prompt: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProviderResult:
    """How a provider ended. `report` is the text it hands on; only `decision` and `data` can route."""

    report: str = ""
    content_type: str = "markdown"
    decision: Decision | None = None
    data: dict[str, Any] = field(default_factory=dict)
    tokens: int = 0


def render_provider_text(prompt: str, context: Sequence[str]) -> str:
    """Return the text a provider gets in its user part: the numbered entries, if there are any, then the prompt."""
    if not context:
        return prompt
    lines = "\n".join(f"[{number}] {entry}" for number, entry in enumerate(context, 1))
    return f"Context:\n{lines}\n\n{prompt}"
