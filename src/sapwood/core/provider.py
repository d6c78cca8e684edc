"""What comes back from a provider: exactly one result, at the end. What goes to it is in `prompt`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sapwood.core.workflow import Decision


@dataclass(frozen=True, slots=True)
class ProviderResult:
    """How a provider ended. `report` is the text it hands on; only `decision` and `data` can route.

    `tokens` are those read and written, `input_tokens` those of them that were read, None when it does not say.
    """

    report: str = ""
    content_type: str = "markdown"
    decision: Decision | None = None
    data: dict[str, Any] = field(default_factory=dict)
    tokens: int = 0
    input_tokens: int | None = None
