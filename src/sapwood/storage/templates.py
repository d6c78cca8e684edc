"""TemplateVersion <-> the PromptTemplate record that keeps it."""

from __future__ import annotations

import msgspec

from sapwood.core.canonical import canonical_json
from sapwood.core.hashing import utf8
from sapwood.core.record import Record
from sapwood.core.template import TemplateId, TemplateVersion
from sapwood.errors import InvalidArtifact


def version_record(version: TemplateVersion) -> Record:
    """Return the artifact of a version, under the version's own root key."""
    metadata = {
        "last_updated_ms": version.last_updated_ms,
        "media": "text",
        "template_id": version.template_id.text,
        "variables": list(version.variables),
    }
    content = utf8(version.text, "template")
    return Record(version.key, "PromptTemplate", content, version.content_hash, canonical_json(metadata))


def to_version(record: Record) -> TemplateVersion:
    """Return the version that a PromptTemplate record keeps; raise InvalidArtifact when it is damaged."""
    try:
        metadata = msgspec.json.decode(record.metadata)
        return TemplateVersion(
            key=record.key,
            template_id=TemplateId(metadata["template_id"]),
            text=record.content.decode(),
            content_hash=record.content_hash,
            variables=tuple(metadata["variables"]),
            last_updated_ms=metadata["last_updated_ms"],
        )
    except (ValueError, KeyError, TypeError) as error:  # the bytes are not those that were written
        raise InvalidArtifact(f"{record.kind} {record.key}", f"cannot be read as a template: {error!r}") from error


def is_version(record: Record) -> bool:
    """Tell whether this record is a shared template version; one inside a run is a part of that run alone."""
    return record.kind == "PromptTemplate" and record.key.depth == 1


def template_id_of(record: Record) -> str:
    """Return the template id that stands in the record's metadata."""
    return str(msgspec.json.decode(record.metadata)["template_id"])
