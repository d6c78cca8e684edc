"""Artifact <-> stored record <-> plain dict: the one wire form.

`to_record` writes exactly the fields that were given. `from_record` reads any record: fields it does not know are kept
in `unknown` and `metadata`, kinds it does not know come back as UnknownArtifact; both are written back unchanged.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple, get_args

import msgspec
from msgspec import UNSET

from sapwood.core.artifacts import AnyArtifact
from sapwood.core.canonical import NO_JSON, canonical_json, read_json
from sapwood.core.expect import expect
from sapwood.core.hashing import utf8
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact, UnknownArtifact
from sapwood.core.record import Record
from sapwood.core.shapes import Field, fields_of, given, take, typed
from sapwood.core.typed import JsonObject
from sapwood.errors import InvalidArtifact, NotCanonical, shown

WIRE_FIELDS: Final = frozenset({"key", "kind", "content", "content_hash", "metadata"})


class Shape(NamedTuple):
    """Where each field of a kind is stored."""

    cls: type[Artifact]
    media: str | None
    content_field: str | None
    content: tuple[Field, ...]
    metadata: tuple[Field, ...]


def _shape_of(cls: type[Artifact]) -> Shape:
    fields = tuple(field for field in fields_of(cls) if field.attribute != "key")
    if cls.content_field is not None:
        metadata = tuple(field for field in fields if field.attribute != cls.content_field)
        return Shape(cls, cls.media, cls.content_field, (), metadata)
    content = tuple(field for field in fields if field.attribute not in cls.metadata_fields)
    return Shape(cls, cls.media, None, content, tuple(field for field in fields if field not in content))


SHAPES: Final[Mapping[str, Shape]] = {cls.__name__: _shape_of(cls) for cls in get_args(AnyArtifact)}


def to_record(artifact: Artifact | UnknownArtifact) -> Record:
    """Return the artifact as it is stored."""
    if isinstance(artifact, UnknownArtifact):
        return artifact.record
    kind = type(artifact).__name__
    shape = SHAPES.get(kind)
    if shape is None or shape.cls is not type(artifact):
        raise InvalidArtifact(kind, "not an artifact kind")
    metadata = given(artifact, shape.metadata, artifact.metadata)
    if "media" in metadata or (artifact.unknown and shape.content_field is not None):
        raise InvalidArtifact(kind, "`media` is no free name, and a kind with one content has no unknown fields")
    if shape.content_field is None:
        content = canonical_json(given(artifact, shape.content, artifact.unknown))
    else:
        content = _content(getattr(artifact, shape.content_field), shape.media, kind)
    if shape.media is not None:
        metadata["media"] = shape.media
    return Record(
        artifact.key,
        kind,
        content,
        sha256(content).hexdigest(),
        canonical_json(metadata) if metadata else b"{}",
    )


def from_record(record: Record) -> Artifact | UnknownArtifact:
    """Return the typed view of a record; raise InvalidArtifact when its bytes do not fit its kind."""
    if type(record) is not Record:
        expect(record, Record, "record", "a Record, as to_record gives it")
    shape = SHAPES.get(record.kind)
    if shape is None:
        return UnknownArtifact(record)
    where = f"{record.kind} {record.key}"
    metadata = read_object(record.metadata, f"{where} metadata")
    media = metadata.pop("media", UNSET)
    if media != (shape.media or UNSET):
        raise InvalidArtifact(where, f"media is {shown(media)}; expected {shape.media or 'none'}")
    fields: JsonObject = {"key": record.key, "metadata": metadata}
    if shape.content_field is None:
        fields["unknown"] = read_object(record.content, where)
        take(shape.content, fields["unknown"], fields)
    else:
        fields[shape.content_field] = _value(record.content, shape.media, where)
    take(shape.metadata, metadata, fields)
    return typed(shape.cls, fields, where)


class _Media(msgspec.Struct):
    media: Any = None


_read_media = msgspec.json.Decoder(_Media).decode
_decode = msgspec.json.Decoder().decode


def read_content(record: Record) -> Any:
    """Return what a record holds, without its typed view: a JSON value, a text or bytes."""
    if type(record) is not Record:
        expect(record, Record, "record", "a Record, as to_record gives it")
    if record.metadata == b"{}":  # most: a run is loaded by the thousand
        try:
            return _decode(record.content)
        except NO_JSON:
            return _value(record.content, None, record)  # a very long integer, or the error in words
    try:
        media = _read_media(record.metadata).media
    except NO_JSON as error:
        raise InvalidArtifact(f"{record.kind} {record.key}", f"its metadata is no JSON object: {error}") from None
    return _value(record.content, media, record)


def from_foreign(record: Record) -> Artifact | UnknownArtifact:
    """Return the typed view of a record that somebody else made; refuse bytes that we would not have written."""
    expect(record, Record, "record", "a Record, as to_record gives it")
    expect(record.key, ArtifactKey, "record.key", "an ArtifactKey")
    where = f"{record.kind} {record.key}"
    if not isinstance(record.content, bytes) or not isinstance(record.metadata, bytes):
        raise InvalidArtifact(where, "its content and its metadata are bytes")
    if record_from_dict(to_dict(record)) != record:
        raise InvalidArtifact(where, "its content or its metadata is not in canonical form")
    return from_record(record)


def to_dict(artifact: Artifact | UnknownArtifact | Record) -> JsonObject:
    """Return the wire form: key, kind, content (JSON value, text, or base64 of bytes), content_hash, metadata."""
    record = artifact if isinstance(artifact, Record) else to_record(artifact)
    where = f"{record.kind} {record.key}"
    metadata = read_object(record.metadata, f"{where} metadata")
    content = _value(record.content, metadata.get("media"), where)
    return {
        "key": record.key.text,
        "kind": record.kind,
        "content": b64encode(content).decode() if isinstance(content, bytes) else content,
        "content_hash": record.content_hash,
        "metadata": metadata,
    }


def from_dict(data: Mapping[str, Any]) -> Artifact | UnknownArtifact:
    """Return the artifact of a wire form."""
    return from_record(record_from_dict(data))


def record_from_dict(data: Mapping[str, Any]) -> Record:
    """Return the record of a wire form; raise InvalidArtifact when its parts do not fit together."""
    expect(data, Mapping, "data", "the wire form of an artifact: an object")
    if data.keys() != WIRE_FIELDS:
        raise InvalidArtifact("artifact", f"has {sorted(map(str, data))}; expected {sorted(WIRE_FIELDS)}")
    key, kind, metadata = ArtifactKey(data["key"]), data["kind"], data["metadata"]
    if not isinstance(kind, str) or not kind.isprintable() or not kind:
        raise InvalidArtifact(f"artifact {key}", f"its kind is {shown(kind)}; expected printable text")
    where = f"{kind} {key}"
    if not isinstance(metadata, dict):
        raise InvalidArtifact(where, f"its metadata is {shown(metadata)}; expected an object")
    content, media = data["content"], metadata.get("media")
    if media not in (None, "text"):
        content = _unbase64(content, where)
    content = _content(content, media, where)
    content_hash = sha256(content).hexdigest()
    if content_hash != data["content_hash"]:
        raise InvalidArtifact(where, f"its content hashes to {content_hash}, not to its content_hash")
    return Record(key, kind, content, content_hash, canonical_json(metadata))


def _content(value: Any, media: Any, where: str) -> bytes:
    """Return the stored bytes of a content value."""
    if media is None:
        return canonical_json(value)
    if media == "text" and isinstance(value, str):
        return utf8(value, where)
    if media != "text" and isinstance(value, bytes):
        return value
    raise InvalidArtifact(where, f"content of type {type(value).__name__} with media {shown(media)}")


def _value(content: bytes, media: Any, where: str | Record) -> Any:
    """Return the content value of stored bytes; those of a media that only a newer version knows stay bytes."""
    if media not in (None, "text"):
        return content
    try:
        return content.decode() if media == "text" else read_json(content)
    except (UnicodeDecodeError, NotCanonical) as error:
        place = where if isinstance(where, str) else f"{where.kind} {where.key}"
        raise InvalidArtifact(place, f"its bytes are no {media or 'JSON'}: {error}") from None


def read_object(data: bytes, where: str) -> JsonObject:
    """Return the JSON object in `data`."""
    if data == b"{}":
        return {}
    value = _value(data, None, where)
    if not isinstance(value, dict):
        raise InvalidArtifact(where, f"holds a {type(value).__name__}; expected an object")
    return value


def _unbase64(text: Any, where: str) -> bytes:
    try:
        data = b64decode(text, validate=True)
    except (TypeError, ValueError) as error:
        raise InvalidArtifact(where, f"its content is no base64: {error}") from None
    if b64encode(data).decode() != text:  # bytes have one text; the decoder takes some others for it
        raise InvalidArtifact(where, "its content is no base64 as these bytes are written")
    return data
