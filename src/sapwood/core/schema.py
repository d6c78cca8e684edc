"""JSON Schema of the wire forms, made from the types themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from sapwood.core.codec import SHAPES, Shape
from sapwood.core.config import CONFIG_FIELDS, ExecutionConfig
from sapwood.core.event_artifacts import EVENT_TYPES
from sapwood.core.events import TIMESTAMP
from sapwood.core.keys import ArtifactKey
from sapwood.core.shapes import Field
from sapwood.core.typed import JsonObject, Typed

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_END = r"$(?!\n)"  # the `$` of some readers also stands before a last line break
KEY_PATTERN = "^ak:[0-7][0-9A-HJKMNP-TV-Z]{25}(/[0-7][0-9A-HJKMNP-TV-Z]{25}){0,63}" + _END


def artifact_schema() -> JsonObject:
    """Return the schema of every artifact kind's wire form; fields it does not name are a newer version's."""
    kinds = [_kind_schema(kind, shape) for kind, shape in sorted(SHAPES.items())]
    return {"$schema": DRAFT, "title": "A Sapwood artifact", "oneOf": kinds}


def event_schema() -> JsonObject:
    """Return the schema of every graph event's wire form."""
    events = []
    for name, cls in sorted(EVENT_TYPES.items()):
        fields = {field.name: field for field in msgspec.structs.fields(cls) if field.name != "unknown"}
        properties = {"type": {"const": name}, **{field: _schema(info.type) for field, info in sorted(fields.items())}}
        properties["timestamp"]["pattern"] = f"^{TIMESTAMP}{_END}"
        required = ["type", *sorted(field for field, info in fields.items() if info.required)]
        events.append({"title": name, "type": "object", "properties": properties, "required": required})
    return {"$schema": DRAFT, "title": "A graph event", "oneOf": events}


def _kind_schema(kind: str, shape: Shape) -> JsonObject:
    content: JsonObject
    if shape.content_field is None:
        content = _object_schema(shape.cls, shape.content)
    elif shape.media is not None:
        content = {"type": "string", **({"contentEncoding": "base64"} if shape.media == "bytes" else {})}
    else:
        content = _schema(_types(shape.cls)[shape.content_field].type)
    if shape.cls is ExecutionConfig:
        content["allOf"] = [_null_says_why(name) for name in CONFIG_FIELDS]
    metadata = _object_schema(shape.cls, shape.metadata)
    metadata["properties"]["media"] = False if shape.media is None else {"const": shape.media}
    if shape.media is not None:
        metadata["required"] = sorted([*metadata["required"], "media"])
    return {
        "title": kind,
        "type": "object",
        "properties": {
            "key": {"type": "string", "pattern": KEY_PATTERN},
            "kind": {"const": kind},
            "content": content,
            "content_hash": {"type": "string", "pattern": f"^[0-9a-f]{{64}}{_END}"},
            "metadata": metadata,
        },
        "required": ["key", "kind", "content", "content_hash", "metadata"],
        "additionalProperties": False,
    }


def _null_says_why(name: str) -> JsonObject:
    reason = {"required": [name], "properties": {name: {"type": "string", "pattern": r"\S"}}}
    return {
        "if": {"properties": {name: {"type": "null"}}},
        "then": {"properties": {"why_absent": reason}, "required": ["why_absent"]},
    }


def _types(cls: type[Typed]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.name: field for field in msgspec.structs.fields(cls)}


def _object_schema(cls: type[Typed], fields: Iterable[Field]) -> JsonObject:
    types = _types(cls)
    properties = {field.name: _schema(types[field.attribute].type) for field in fields}
    required = sorted(field.name for field in fields if types[field.attribute].required)
    return {"type": "object", "properties": dict(sorted(properties.items())), "required": required}


def _schema(annotation: Any) -> JsonObject:
    made, parts = msgspec.json.schema_components([annotation], schema_hook=_key_schema)
    found: JsonObject = _inlined(made[0], parts)
    return found


def _key_schema(kind: type[Any]) -> JsonObject:
    if kind is ArtifactKey:
        return {"type": "string", "pattern": KEY_PATTERN}
    raise NotImplementedError(kind)


def _inlined(schema: Any, parts: dict[str, Any]) -> Any:
    """Return `schema` with its references replaced by what they refer to, and without our own `unknown`."""
    if isinstance(schema, list):
        return [_inlined(item, parts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        part = _inlined(parts[schema["$ref"].removeprefix("#/$defs/")], parts)
        part["properties"].pop("unknown", None)
        return part
    return {name: _inlined(item, parts) for name, item in schema.items() if name != "default"}
