"""The 37 graph events: what happens in a workflow while it runs, each with its own payload.

On the wire an event is an object with `event_id`, `node_id` (null: of no node), `timestamp` (RFC 3339), `type` (the
class name) and its payload fields. A free object stands only where the wire gives one.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal

from msgspec import UNSET, UnsetType

from sapwood.core.instants import find_instant
from sapwood.core.typed import JsonObject, Text, Typed
from sapwood.errors import InvalidArtifact

Number = int | None | UnsetType
Truth = bool | None | UnsetType
Names = tuple[str, ...] | None | UnsetType
Objects = tuple[JsonObject, ...] | None | UnsetType
MaybeObject = JsonObject | None | UnsetType
WorktreeType = Literal["main", "submodule"] | None | UnsetType

_DAY = "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_HOUR = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
TIMESTAMP: Final = (  # a leap second is a second
    rf"({_DAY})[Tt]{_HOUR}:(?:[0-5][0-9]|60)(?:\.[0-9]{{1,9}})?(?:[Zz]|[+-]{_HOUR})"
)
_TIMESTAMP = re.compile(TIMESTAMP)


class GraphEvent(Typed, frozen=True, tag_field="type", tag=True):
    """Something happened."""

    event_id: str
    node_id: str | None
    timestamp: str

    def __post_init__(self) -> None:
        super().__post_init__()
        match = _TIMESTAMP.fullmatch(self.timestamp)
        if match is None or find_instant(f"{match[1]}T00:00:00.000Z") is None:
            where = f"{self.type}.timestamp"
            raise InvalidArtifact(where, f"{self.timestamp[:40]!r}; expected RFC 3339 like 2026-01-01T00:00:00.000Z")

    @property
    def type(self) -> str:
        return type(self).__name__


class NodeAddedEvent(GraphEvent, frozen=True):
    node_title: Text = UNSET
    node_type: Text = UNSET
    parent_node_id: Text = UNSET


class ActionStartedEvent(GraphEvent, frozen=True):
    agent_name: Text = UNSET
    action_name: Text = UNSET


class ActionCompletedEvent(GraphEvent, frozen=True):
    agent_name: Text = UNSET
    action_name: Text = UNSET
    outcome_type: Text = UNSET


class StopAgentEvent(GraphEvent, frozen=True):
    reason: Text = UNSET


class PauseEvent(GraphEvent, frozen=True):
    message: Text = UNSET


class ResumeEvent(GraphEvent, frozen=True):
    message: Text = UNSET


class ResolveInterruptEvent(GraphEvent, frozen=True):
    message: Text = UNSET


class AddMessageEvent(GraphEvent, frozen=True):
    message: Text = UNSET


class NodeStatusChangedEvent(GraphEvent, frozen=True):
    old_status: Text = UNSET
    new_status: Text = UNSET
    reason: Text = UNSET


class NodeErrorEvent(GraphEvent, frozen=True):
    node_title: Text = UNSET
    node_type: Text = UNSET
    message: Text = UNSET


class NodeBranchedEvent(GraphEvent, frozen=True):
    """`node_id` is the new node."""

    original_node_id: Text = UNSET
    new_goal: Text = UNSET
    main_worktree_id: Text = UNSET
    submodule_worktree_ids: Names = UNSET


class NodePrunedEvent(GraphEvent, frozen=True):
    reason: Text = UNSET
    worktree_ids: Names = UNSET


class NodeReviewRequestedEvent(GraphEvent, frozen=True):
    review_node_id: Text = UNSET
    review_type: Text = UNSET
    content_to_review: Text = UNSET


class InterruptStatusEvent(GraphEvent, frozen=True):
    interrupt_type: Text = UNSET
    interrupt_status: Text = UNSET
    origin_node_id: Text = UNSET
    resume_node_id: Text = UNSET


class GoalCompletedEvent(GraphEvent, frozen=True):
    final_summary: Text = UNSET
    total_nodes_completed: Number = UNSET
    total_nodes_failed: Number = UNSET
    execution_time_ms: Number = UNSET


class WorktreeCreatedEvent(GraphEvent, frozen=True):
    worktree_id: Text = UNSET
    worktree_path: Text = UNSET
    worktree_type: WorktreeType = UNSET
    submodule_name: Text = UNSET


class WorktreeBranchedEvent(GraphEvent, frozen=True):
    original_worktree_id: Text = UNSET
    branched_worktree_id: Text = UNSET
    branch_name: Text = UNSET
    worktree_type: WorktreeType = UNSET


class WorktreeMergedEvent(GraphEvent, frozen=True):
    child_worktree_id: Text = UNSET
    parent_worktree_id: Text = UNSET
    merge_commit_hash: Text = UNSET
    conflict_detected: Truth = UNSET
    conflict_files: Names = UNSET
    worktree_type: WorktreeType = UNSET


class WorktreeDiscardedEvent(GraphEvent, frozen=True):
    worktree_id: Text = UNSET
    reason: Text = UNSET
    worktree_type: WorktreeType = UNSET


class NodeUpdatedEvent(GraphEvent, frozen=True):
    updates: MaybeObject = UNSET


class NodeDeletedEvent(GraphEvent, frozen=True):
    reason: Text = UNSET


class NodeStreamDeltaEvent(GraphEvent, frozen=True):
    delta_content: Text = UNSET
    token_count: Number = UNSET
    is_final: Truth = UNSET


class NodeThoughtDeltaEvent(GraphEvent, frozen=True):
    delta_content: Text = UNSET
    token_count: Number = UNSET
    is_final: Truth = UNSET


class ToolCallEvent(GraphEvent, frozen=True):
    tool_call_id: Text = UNSET
    title: Text = UNSET
    tool_kind: Text = UNSET
    status: Text = UNSET
    phase: Text = UNSET
    content: Objects = UNSET
    locations: Objects = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET


class GuiRenderEvent(GraphEvent, frozen=True):
    session_id: Text = UNSET
    payload: Any = UNSET


class UiDiffAppliedEvent(GraphEvent, frozen=True):
    session_id: Text = UNSET
    revision: Text = UNSET
    render_tree: Any = UNSET
    summary: Text = UNSET


class UiDiffRejectedEvent(GraphEvent, frozen=True):
    session_id: Text = UNSET
    error_code: Text = UNSET
    message: Text = UNSET


class UiDiffRevertedEvent(GraphEvent, frozen=True):
    session_id: Text = UNSET
    revision: Text = UNSET
    render_tree: Any = UNSET
    source_event_id: Text = UNSET


class UiFeedbackEvent(GraphEvent, frozen=True):
    session_id: Text = UNSET
    source_event_id: Text = UNSET
    message: Text = UNSET
    snapshot: MaybeObject = UNSET


class NodeBranchRequestedEvent(GraphEvent, frozen=True):
    message: Text = UNSET


class PlanUpdateEvent(GraphEvent, frozen=True):
    entries: Objects = UNSET


class UserMessageChunkEvent(GraphEvent, frozen=True):
    content: Text = UNSET


class CurrentModeUpdateEvent(GraphEvent, frozen=True):
    current_mode_id: Text = UNSET


class AvailableCommandsUpdateEvent(GraphEvent, frozen=True):
    commands: Objects = UNSET


class PermissionRequestedEvent(GraphEvent, frozen=True):
    origin_node_id: Text = UNSET
    request_id: Text = UNSET
    tool_call_id: Text = UNSET
    permissions: Any = UNSET


class PermissionResolvedEvent(GraphEvent, frozen=True):
    origin_node_id: Text = UNSET
    request_id: Text = UNSET
    tool_call_id: Text = UNSET
    outcome: Text = UNSET
    selected_option_id: Text = UNSET


class UiStateSnapshot(GraphEvent, frozen=True):
    session_id: Text = UNSET
    revision: Text = UNSET
    render_tree: Any = UNSET


AnyEvent = (
    NodeAddedEvent
    | ActionStartedEvent
    | ActionCompletedEvent
    | StopAgentEvent
    | PauseEvent
    | ResumeEvent
    | ResolveInterruptEvent
    | AddMessageEvent
    | NodeStatusChangedEvent
    | NodeErrorEvent
    | NodeBranchedEvent
    | NodePrunedEvent
    | NodeReviewRequestedEvent
    | InterruptStatusEvent
    | GoalCompletedEvent
    | WorktreeCreatedEvent
    | WorktreeBranchedEvent
    | WorktreeMergedEvent
    | WorktreeDiscardedEvent
    | NodeUpdatedEvent
    | NodeDeletedEvent
    | NodeStreamDeltaEvent
    | NodeThoughtDeltaEvent
    | ToolCallEvent
    | GuiRenderEvent
    | UiDiffAppliedEvent
    | UiDiffRejectedEvent
    | UiDiffRevertedEvent
    | UiFeedbackEvent
    | NodeBranchRequestedEvent
    | PlanUpdateEvent
    | UserMessageChunkEvent
    | CurrentModeUpdateEvent
    | AvailableCommandsUpdateEvent
    | PermissionRequestedEvent
    | PermissionResolvedEvent
    | UiStateSnapshot
)
