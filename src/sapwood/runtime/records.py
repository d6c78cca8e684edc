"""Artifacts of the recording calls, straight to records: what `codec.to_record` gives, without the typed step.

A run makes these by the thousand, so they are written out by hand; a test compares each with the codec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from msgspec import UNSET

from sapwood.core.artifacts import AgentRequest, AgentResult, EndStatus
from sapwood.core.canonical import canonical_json
from sapwood.core.codec import to_record
from sapwood.core.event_artifacts import EVENT_ARTIFACTS, event_from_dict, event_to_dict
from sapwood.core.events import GraphEvent
from sapwood.core.hashing import utf8
from sapwood.core.keys import ArtifactKey
from sapwood.core.prompt import Contribution
from sapwood.core.record import Record
from sapwood.errors import InvalidArtifact
from sapwood.ports import Rendered

NOTHING: Final = b"{}"


def json_record(key: ArtifactKey, kind: str, value: Any, metadata: bytes = NOTHING) -> Record:
    content = canonical_json(value)
    return Record(key, kind, content, sha256(content).hexdigest(), metadata)


def text_record(key: ArtifactKey, kind: str, text: str, metadata: dict[str, Any]) -> Record:
    if type(text) is not str:
        raise InvalidArtifact(f"{kind}.text", f"{type(text).__name__}; expected str")
    content = utf8(text, f"the text of a {kind}")
    metadata["media"] = "text"
    return Record(key, kind, content, sha256(content).hexdigest(), canonical_json(metadata))


def checked_text(where: str, value: object) -> str:
    if type(value) is not str:
        raise InvalidArtifact(where, f"{type(value).__name__}; expected str")
    return value


def request_record(
    key: ArtifactKey, name: str, attempt: int, run_node_id: int, request: Any, fields: Mapping[str, Any]
) -> Record:
    """Return the artifact that opens the scope of an agent."""
    if fields:
        request_with = AgentRequest(key, node=name, attempt=attempt, request=request, run_node_id=run_node_id, **fields)
        return to_record(request_with)
    content = {"attempt": attempt, "node": checked_text("AgentRequest.node", name)}
    if request is not UNSET:
        content["request"] = request
    return json_record(key, "AgentRequest", content, b'{"run_node_id":%d}' % run_node_id)


def result_record(key: ArtifactKey, status: EndStatus, fields: Mapping[str, Any]) -> Record:
    """Return the artifact that says how an agent ended and what it gave."""
    if fields.keys() - {"result"}:
        return to_record(AgentResult(key, status=status, **fields))
    return json_record(key, "AgentResult", {**fields, "status": status})


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
