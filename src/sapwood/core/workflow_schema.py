"""JSON Schema of workflow files, for editors: made from the same table as the reader, so that the two agree.

It knows names, types and ranges. That a node exists, or that a path is safe, only `sapwood check` can say.
"""

from __future__ import annotations

from typing import Any, assert_never

from sapwood.core.schema import DRAFT
from sapwood.core.workflow_fields import (
    WORKFLOW,
    ByKind,
    Choice,
    Decimal,
    Group,
    Json,
    ListOf,
    Shape,
    TableOf,
    Text,
    TextOrList,
    Truth,
    Whole,
)


def workflow_schema() -> dict[str, Any]:
    """Return the schema of a whole file."""
    return {"$schema": DRAFT, "title": "A Sapwood workflow", **_schema(WORKFLOW)}


def _schema(shape: Shape) -> dict[str, Any]:
    match shape:
        case Text():
            return {"type": "string", "maxLength": shape.max_chars, "minLength": 0 if shape.may_be_empty else 1}
        case Whole():
            return {"type": "integer", "minimum": shape.low, "maximum": shape.high}
        case Decimal():
            return {"type": "number", "minimum": shape.low, "maximum": shape.high}
        case Truth():
            return {"type": "boolean"}
        case Choice():
            return {"enum": list(shape.words)}
        case Json():
            return {}
        case TextOrList():
            return {"type": ["string", "array"]}
        case ListOf():
            items = {"minItems": shape.at_least, "maxItems": shape.at_most}
            return {"type": "array", "items": _schema(shape.shape), **items}
        case TableOf():
            names = {f"^{shape.pattern.removeprefix('^').removesuffix('$')}$": _schema(shape.shape)}
            bounds = {"minProperties": shape.at_least, "additionalProperties": False}
            return {"type": "object", "patternProperties": names, **bounds}
        case Group():
            return _group(shape)
        case ByKind():
            return {
                "type": "object",
                "required": ["kind"],
                "properties": {"kind": {"enum": [kind for kind, _ in shape.kinds]}},
                "allOf": [_of_kind(kind, group) for kind, group in shape.kinds],
            }
        case _:
            assert_never(shape)


def _group(group: Group) -> dict[str, Any]:
    properties = {field.name: {**_schema(field.shape), "description": field.about} for field in group.fields}
    required = [field.name for field in group.fields if field.required]
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _of_kind(kind: str, group: Group) -> dict[str, Any]:
    """Say what a node of this kind may have; nodes of other kinds are let through here."""
    schema = _group(group)
    schema["properties"]["kind"] = {"const": kind}
    return {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": schema}
