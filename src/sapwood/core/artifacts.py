"""The artifact kinds: one frozen class for each stored kind name, together the union `AnyArtifact`.

A JSON kind stores its fields as one canonical JSON object. A kind with a `content_field` stores that field alone: as
text or bytes (`media`), else as canonical JSON. What is not content is metadata: the fields in `metadata_fields`,
every other field of a kind with a `content_field`, and the free `metadata`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from sapwood.core.agent_context import AgentModel
from sapwood.core.config import ExecutionConfig
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.plans import DiscoveryReport, PlanningTicket
from sapwood.core.typed import JsonObject, Text, Typed

ContentType = Literal["text", "markdown", "json", "diff"]
EndStatus = Literal["completed", "failed", "cancelled"]
Count = int | UnsetType
Names = tuple[str, ...] | UnsetType
KeyOrNull = ArtifactKey | None | UnsetType


class Execution(Artifact, frozen=True):
    """The root of a run."""

    workflow: Text = UNSET
    workflow_run_id: Count = UNSET


class InputArtifacts(Artifact, frozen=True):
    """The group of what the run was given."""


class AgentExecutionArtifacts(Artifact, frozen=True):
    """The group of what the agents did."""


class OutcomeEvidenceArtifacts(Artifact, frozen=True):
    """The group of what came of it."""


class Input(Artifact, frozen=True):
    """One thing the run was given."""

    name: str
    value: Any


class PreviousTry(Typed, frozen=True):
    """An earlier attempt of the same node: its request, how it ended, and its AgentResult."""

    key: ArtifactKey
    status: str
    error: str | None
    result: ArtifactKey | None


class AgentRequest(AgentModel, frozen=True):
    """One attempt of one node: the scope of all that this agent did. Its key is its `context_id`.

    `previous_context` are the earlier attempts, newest last: empty for the first, and never left out of a request
    that is executed.
    """

    metadata_fields = frozenset({"run_node_id", "visit", "try_"})

    node: str
    attempt: int
    goal: Text = UNSET
    request: Any = UNSET
    previous_context: tuple[PreviousTry, ...] | UnsetType = UNSET
    question: Text = UNSET
    options: Names = UNSET
    state: Any = UNSET
    run_node_id: Count = UNSET
    visit: Count = UNSET
    try_: Count = msgspec.field(default=UNSET, name="try")

    @property
    def context_id(self) -> ArtifactKey:
        return self.key


class AgentRequests(AgentModel, frozen=True):
    """The dispatch of a fan-out; its requests are its children, one for each of `items` under the name beside it."""

    node: str
    goal: Text = UNSET
    names: Names = UNSET
    items: Any = UNSET


class Delivery(Artifact, frozen=True):
    """One try to call the provider; `interrupted` is the earlier one that its process did not survive."""

    delivery: int
    provider: Text = UNSET
    interrupted: KeyOrNull = UNSET
    options: JsonObject | UnsetType = UNSET


class AgentResult(AgentModel, frozen=True):
    """How an attempt ended, and what it gave."""

    status: EndStatus
    decision: Text = UNSET
    result: Any = UNSET
    error: Text = UNSET
    goal: Text = UNSET
    outcome: Text = UNSET
    evidence: tuple[ArtifactKey, ...] | UnsetType = UNSET
    changed_files: Names = UNSET
    verdicts: JsonObject | UnsetType = UNSET
    risks: Names = UNSET


class RenderedPrompt(Artifact, frozen=True):
    """The exact text a provider got; its children rebuild it."""

    content_field = "text"
    media = "text"

    text: str
    renderer: str
    renderer_version: str
    template_id: Text = UNSET
    part: Literal["user", "system"] | UnsetType = UNSET


class PromptTemplate(Artifact, frozen=True):
    """One version of a template; shared, under its own root key."""

    content_field = "text"
    media = "text"

    text: str
    template_id: str
    variables: tuple[str, ...]
    last_updated_ms: int


class PromptArgs(Artifact, frozen=True):
    """The arguments a template was rendered with."""

    content_field = "args"

    args: JsonObject


class PromptContribution(Artifact, frozen=True):
    """One contributor's text in a prompt; slot `context` is a handoff entry."""

    content_field = "text"
    media = "text"

    text: str
    contributor: str
    order: int
    slot: Literal["prompt", "context"]


class ToolCallArtifact(Artifact, frozen=True):
    """One use of a tool; ToolInput and ToolOutput are its children."""

    tool: str
    call_id: Text = UNSET
    status: Text = UNSET
    error: Text = UNSET


class ToolInput(Artifact, frozen=True):
    content_field = "value"

    value: Any


class ToolOutput(Artifact, frozen=True):
    content_field = "value"

    value: Any


class EventArtifact(Artifact, frozen=True):
    """A graph event; all of it is hashed, so two events are never equal."""

    event_id: str
    node_id: str | None
    timestamp: str
    type: str
    payload: JsonObject


class MessageStreamArtifact(EventArtifact, frozen=True):
    """A graph event that is a piece of a message: stream and thought deltas, chunks of the user's text."""


class OutcomeEvidence(Artifact, frozen=True):
    """A fact about what came of the run: tests, build, merge, ack."""

    name: str
    passed: bool | None
    evidence: Any = UNSET


class RefArtifact(Artifact, frozen=True):
    """A reference to another artifact, for example to a shared template version.

    With `target_hash` the head of this run covers what stands at the target, also when that is in no run.
    """

    target: ArtifactKey
    role: str
    target_hash: Text = UNSET


class DbRef(Artifact, frozen=True):
    """A sibling with the same kind and content as `target`: computed when read, written out in exports."""

    target: ArtifactKey
    target_kind: str


class ValidationError(Artifact, frozen=True):
    """Something was refused."""

    code: str
    message: str
    where: Text = UNSET


class Report(Artifact, frozen=True):
    """What a node hands on."""

    content_field = "text"
    media = "text"

    text: str
    content_type: ContentType
    artifact_id: Count = UNSET
    run_node_id: Count = UNSET
    node_key: Text = UNSET
    attempt: Count = UNSET
    created_at: Text = UNSET
    context_manifest: JsonObject | UnsetType | None = UNSET


class Note(Report, frozen=True):
    """What a node noted on the side."""


class Log(Report, frozen=True):
    """What a failed node left."""


class IngestManifest(Artifact, frozen=True):
    """What was taken from a document and what was refused: the v1 manifest."""

    content_field = "manifest"

    manifest: JsonObject


class IngestedFile(Artifact, frozen=True):
    """The bytes of a file that ingest wrote (`written`), or that stood there before (`before`)."""

    content_field = "data"
    media = "bytes"

    data: bytes
    workspace_path: str
    sha256: str
    block_index: int
    role: Literal["written", "before"]
    previous: KeyOrNull = UNSET


class PhaseHandoff(Artifact, frozen=True):
    """What one phase hands to the next."""

    run_id: str
    phase: int
    goal: Text = UNSET
    epic_id: Text = UNSET
    verdicts: JsonObject | UnsetType = UNSET
    artifacts_produced: Names = UNSET
    decisions_made: Names = UNSET
    open_risks: Names = UNSET
    narrative: Text = UNSET


class BudgetResult(Artifact, frozen=True):
    """A token budget that was applied."""

    original_tokens: int
    budget_tokens: int
    truncated_tokens: int
    was_truncated: bool
    phase: int | UnsetType | None = UNSET
    node: Text = UNSET
    estimator: Text = UNSET


class Seal(Artifact, frozen=True):
    """The end of a run: its status, how many artifacts of each kind, and the Merkle head over all but the Seal."""

    status: EndStatus
    head: str
    counts: JsonObject


AnyArtifact = (
    Execution
    | ExecutionConfig
    | InputArtifacts
    | Input
    | AgentExecutionArtifacts
    | OutcomeEvidenceArtifacts
    | AgentRequest
    | AgentRequests
    | Delivery
    | AgentResult
    | RenderedPrompt
    | PromptTemplate
    | PromptArgs
    | PromptContribution
    | ToolCallArtifact
    | ToolInput
    | ToolOutput
    | EventArtifact
    | MessageStreamArtifact
    | OutcomeEvidence
    | RefArtifact
    | DbRef
    | DiscoveryReport
    | PlanningTicket
    | ValidationError
    | Report
    | Note
    | Log
    | IngestManifest
    | IngestedFile
    | PhaseHandoff
    | BudgetResult
    | Seal
)
