"""A tool call as a provider streams it -> the artifacts that record it: the call, what went in, what came out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import UNSET

from sapwood.core.artifacts import ToolCallArtifact, ToolInput, ToolOutput
from sapwood.core.events import ToolCallEvent
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact

STILL_OPEN: Final = ("pending", "in_progress", "running", "started")


def tool_call_of(
    event: ToolCallEvent, parent: ArtifactKey, new_key: Callable[[ArtifactKey], ArtifactKey]
) -> list[Artifact]:
    """Return the artifacts of a call that has ended, below `parent`; none while it goes on."""
    if event.status in STILL_OPEN:
        return []
    tool = next((name for name in (event.title, event.tool_kind) if isinstance(name, str) and name), "tool")
    call = ToolCallArtifact(new_key(parent), tool=tool, call_id=event.tool_call_id, status=event.status)
    made: list[Artifact] = [call]
    if event.raw_input is not UNSET:
        made.append(ToolInput(new_key(call.key), value=event.raw_input))
    if event.raw_output is not UNSET:
        made.append(ToolOutput(new_key(call.key), value=event.raw_output))
    return made
