"""Artifacts of the recording calls, straight to records: what `codec.to_record` gives, without the typed step.

A run makes these by the thousand, so they are written out by hand; a test compares each with the codec. What opens a
run is made once, and takes that step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from msgspec import UNSET

from sapwood.clock import KeyFactory
from sapwood.core.artifacts import (
    AgentExecutionArtifacts,
    AgentRequest,
    AgentResult,
    EndStatus,
    Execution,
    Input,
    InputArtifacts,
    OutcomeEvidenceArtifacts,
    PromptTemplate,
)
from sapwood.core.canonical import canonical_json
from sapwood.core.codec import from_foreign, to_record
from sapwood.core.config import execution_config
from sapwood.core.event_artifacts import EVENT_ARTIFACTS, event_from_dict, event_to_dict
from sapwood.core.events import GraphEvent
from sapwood.core.hashing import utf8
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact, UnknownArtifact
from sapwood.core.plans import check_plan
from sapwood.core.prompt import Contribution
from sapwood.core.record import Record
from sapwood.core.seal import is_seal
from sapwood.core.tree import REQUIRED_GROUPS
from sapwood.errors import InvalidArtifact
from sapwood.ports import Rendered

NOTHING: Final = b"{}"


def offered_record(artifact: Artifact | UnknownArtifact | Record) -> Record:
    """Return the record of an artifact that a caller made, checked for what its kind alone does not say."""
    if isinstance(artifact, Record | UnknownArtifact):
        artifact = from_foreign(artifact if isinstance(artifact, Record) else artifact.record)
    record = to_record(artifact)
    if is_seal(record):
        raise InvalidArtifact(f"Seal {record.key}", "only complete(), fail() and cancel() seal a run")
    if record.kind == PromptTemplate.__name__ and record.key.depth == 1:
        raise InvalidArtifact(f"PromptTemplate {record.key}", "only templates.register() adds a version")
    if findings := check_plan(artifact):
        raise InvalidArtifact(f"{record.kind} {record.key}", "; ".join(finding.message for finding in findings))
    return record


def opening_records(
    keys: KeyFactory, workflow_run_id: int, config: Mapping[str, Any], inputs: Mapping[str, Any], workflow: Any
) -> tuple[dict[str, ArtifactKey], list[Record]]:
    """Return the keys of a new run's four groups, and what opens it: its root first, the groups, what it was given."""
    root = keys.root()
    groups = {name: keys.child(root) for name in REQUIRED_GROUPS}
    artifacts = [
        Execution(root, workflow_run_id=workflow_run_id, workflow=workflow),
        execution_config(groups["ExecutionConfig"], config),
        InputArtifacts(groups["InputArtifacts"]),
        AgentExecutionArtifacts(groups["AgentExecutionArtifacts"]),
        OutcomeEvidenceArtifacts(groups["OutcomeEvidenceArtifacts"]),
        *(Input(keys.child(groups["InputArtifacts"]), name=name, value=value) for name, value in inputs.items()),
    ]
    return groups, [to_record(artifact) for artifact in artifacts]


def json_record(key: ArtifactKey, kind: str, value: Any, metadata: bytes = NOTHING) -> Record:
    content = canonical_json(value)
    return Record(key, kind, content, sha256(content).hexdigest(), metadata)


def text_record(key: ArtifactKey, kind: str, text: str, metadata: dict[str, Any]) -> Record:
    content = utf8(checked_text(f"{kind}.text", text), f"the text of a {kind}")
    metadata["media"] = "text"
    return Record(key, kind, content, sha256(content).hexdigest(), canonical_json(metadata))


def checked_text(where: str, value: object) -> str:
    """Return the plain text of `value`, which may carry more, as a recorded prompt carries its key."""
    if not isinstance(value, str):
        raise InvalidArtifact(where, f"{type(value).__name__}; expected str")
    return str.__str__(value)


def request_record(
    key: ArtifactKey, name: str, attempt: int, run_node_id: int, request: Any, fields: Mapping[str, Any]
) -> Record:
    """Return the artifact that opens the scope of an agent."""
    if fields:
        _expect_fields(AgentRequest, fields, {"node", "attempt", "request", "run_node_id"})
        request_with = AgentRequest(key, node=name, attempt=attempt, request=request, run_node_id=run_node_id, **fields)
        return to_record(request_with)
    content = {"attempt": attempt, "node": checked_text("AgentRequest.node", name)}
    if request is not UNSET:
        content["request"] = request
    return json_record(key, "AgentRequest", content, b'{"run_node_id":%d}' % run_node_id)


def result_record(key: ArtifactKey, status: EndStatus, fields: Mapping[str, Any]) -> Record:
    """Return the artifact that says how an agent ended and what it gave."""
    if fields.keys() - {"result"}:
        _expect_fields(AgentResult, fields, {"status"})
        return to_record(AgentResult(key, status=status, **fields))
    return json_record(key, "AgentResult", {**fields, "status": status})


def _expect_fields(kind: type[Artifact], given: Mapping[str, Any], filled_in: Set[str]) -> None:
    free = set(kind.__struct_fields__) - filled_in - {"key"}
    for name in given.keys() - free:
        raise InvalidArtifact(f"{kind.__name__}.{name}", f"no field to give here; expected {', '.join(sorted(free))}")


def event_record(key: ArtifactKey, event: GraphEvent | Mapping[str, Any]) -> Record:
    """Return the artifact of a graph event, given as itself or in its wire form."""
    if isinstance(event, GraphEvent):
        payload = event_to_dict(event)
    else:
        event_from_dict(event)  # refuses what is no event; what it accepts is already in its wire form
        payload = dict(event)
    head = {name: payload.pop(name) for name in ("event_id", "node_id", "timestamp", "type")}
    return json_record(key, EVENT_ARTIFACTS[head["type"]].__name__, {**head, "payload": payload})


def prompt_records(
    key: ArtifactKey,
    children: Sequence[ArtifactKey],
    rendered: Rendered,
    text: str,
    contributions: Sequence[Contribution],
    part: str | None = None,
    metadata: Mapping[str, Any] = MappingProxyType({}),
) -> list[Record]:
    """Return the prompt and below it the template reference, the arguments and the contributions."""
    version = rendered.version
    about = {
        **metadata,
        "renderer": rendered.renderer,
        "renderer_version": rendered.renderer_version,
        "template_id": version.template_id.text,
    }
    if part is not None:
        about["part"] = part
    args = rendered.args_json
    reference = {"role": "template", "target": version.key.text, "target_hash": version.content_hash}
    return [
        text_record(key, "RenderedPrompt", text, about),
        json_record(children[0], "RefArtifact", reference),
        Record(children[1], "PromptArgs", args, sha256(args).hexdigest(), NOTHING),
        *(
            text_record(
                child,
                "PromptContribution",
                one.text,
                {"contributor": one.name, "order": one.order, "slot": one.slot},
            )
            for child, one in zip(children[2:], contributions, strict=True)
        ),
    ]
