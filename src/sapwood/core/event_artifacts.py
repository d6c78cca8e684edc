"""Graph event <-> plain dict, and graph event <-> the artifact that records it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from sapwood.core.artifacts import EventArtifact, MessageStreamArtifact
from sapwood.core.events import AnyEvent, GraphEvent
from sapwood.core.expect import expect
from sapwood.core.keys import ArtifactKey
from sapwood.core.shapes import fields_of, given, take, typed
from sapwood.core.typed import JsonObject
from sapwood.errors import InvalidArtifact, shown

_HEAD = ("event_id", "node_id", "timestamp", "type")

# Every type by name, so that a new one without an artifact is seen; a test compares this with AnyEvent.
EVENT_ARTIFACTS: Final[Mapping[str, type[EventArtifact]]] = {
    "NodeAddedEvent": EventArtifact,
    "ActionStartedEvent": EventArtifact,
    "ActionCompletedEvent": EventArtifact,
    "StopAgentEvent": EventArtifact,
    "PauseEvent": EventArtifact,
    "ResumeEvent": EventArtifact,
    "ResolveInterruptEvent": EventArtifact,
    "AddMessageEvent": EventArtifact,
    "NodeStatusChangedEvent": EventArtifact,
    "NodeErrorEvent": EventArtifact,
    "NodeBranchedEvent": EventArtifact,
    "NodePrunedEvent": EventArtifact,
    "NodeReviewRequestedEvent": EventArtifact,
    "InterruptStatusEvent": EventArtifact,
    "GoalCompletedEvent": EventArtifact,
    "WorktreeCreatedEvent": EventArtifact,
    "WorktreeBranchedEvent": EventArtifact,
    "WorktreeMergedEvent": EventArtifact,
    "WorktreeDiscardedEvent": EventArtifact,
    "NodeUpdatedEvent": EventArtifact,
    "NodeDeletedEvent": EventArtifact,
    "NodeStreamDeltaEvent": MessageStreamArtifact,
    "NodeThoughtDeltaEvent": MessageStreamArtifact,
    "ToolCallEvent": EventArtifact,
    "GuiRenderEvent": EventArtifact,
    "UiDiffAppliedEvent": EventArtifact,
    "UiDiffRejectedEvent": EventArtifact,
    "UiDiffRevertedEvent": EventArtifact,
    "UiFeedbackEvent": EventArtifact,
    "NodeBranchRequestedEvent": EventArtifact,
    "PlanUpdateEvent": EventArtifact,
    "UserMessageChunkEvent": MessageStreamArtifact,
    "CurrentModeUpdateEvent": EventArtifact,
    "AvailableCommandsUpdateEvent": EventArtifact,
    "PermissionRequestedEvent": EventArtifact,
    "PermissionResolvedEvent": EventArtifact,
    "UiStateSnapshot": EventArtifact,
}

EVENT_TYPES: Final[Mapping[str, type[GraphEvent]]] = {cls.__name__: cls for cls in get_args(AnyEvent)}
_FIELDS = {cls: fields_of(cls) for cls in EVENT_TYPES.values()}


def event_to_dict(event: GraphEvent) -> JsonObject:
    """Return an event's wire form."""
    if type(event) not in _FIELDS or "type" in event.unknown:
        raise InvalidArtifact(type(event).__name__, "not a graph event, or its unknown fields hold a type")
    return {"type": event.type, **given(event, _FIELDS[type(event)], event.unknown)}


def event_from_dict(data: Mapping[str, Any]) -> GraphEvent:
    """Return the event of a wire form; fields of a newer version are kept in `unknown`."""
    expect(data, Mapping, "data", "the wire form of an event: an object")
    rest = dict(data)
    name = rest.pop("type", None)
    cls = EVENT_TYPES.get(name) if isinstance(name, str) else None
    if cls is None:
        raise InvalidArtifact("event.type", f"{shown(name)} is none of the {len(EVENT_TYPES)} graph event types")
    fields: JsonObject = {"unknown": rest}
    take(_FIELDS[cls], rest, fields)
    return typed(cls, fields, cls.__name__)


def artifact_of_event(key: ArtifactKey, event: GraphEvent) -> EventArtifact:
    """Return the artifact that records an event."""
    payload = event_to_dict(event)
    head = {name: payload.pop(name) for name in _HEAD}
    return EVENT_ARTIFACTS[event.type](key, payload=payload, **head)


def event_of_artifact(artifact: EventArtifact) -> GraphEvent:
    """Return the event that an artifact records; raise InvalidArtifact for a type that only a newer version knows."""
    expect(artifact, EventArtifact, "artifact", "an EventArtifact")
    return event_from_dict({**artifact.payload, **{name: getattr(artifact, name) for name in _HEAD}})
