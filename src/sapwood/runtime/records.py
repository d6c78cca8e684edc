"""Artifacts of the recording calls, straight to records: what `codec.to_record` gives, without the typed step.

A run makes these by the thousand, so they are written out by hand; a test compares each with the codec.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from sapwood.core.canonical import canonical_json
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


def prompt_records(
    key: ArtifactKey,
    children: Sequence[ArtifactKey],
    rendered: Rendered,
    text: str,
    contributions: Sequence[Contribution],
    part: str | None = None,
) -> list[Record]:
    """Return the prompt and below it the template reference, the arguments and the contributions."""
    version = rendered.version
    about = {
        "renderer": rendered.renderer,
        "renderer_version": rendered.renderer_version,
        "template_id": version.template_id.text,
    }
    if part is not None:
        about["part"] = part
    args = rendered.args_json
    return [
        text_record(key, "RenderedPrompt", text, about),
        json_record(children[0], "RefArtifact", {"role": "template", "target": version.key.text}),
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
