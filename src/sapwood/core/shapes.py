"""How the fields of a Typed class stand on the wire, and how to write and read them without losing any."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET

from sapwood.core.keys import ArtifactKey
from sapwood.core.typed import JsonObject, Typed
from sapwood.errors import InvalidArtifact, SapwoodError

AnyTyped = TypeVar("AnyTyped", bound=Typed)


class Field(NamedTuple):
    """A declared field: its attribute, its name on the wire, and which Typed class stands in it or in its tuple."""

    attribute: str
    name: str
    is_plain: bool
    part: type[Typed] | None
    part_of_tuple: type[Typed] | None


@cache
def fields_of(cls: type[Typed]) -> tuple[Field, ...]:
    """Return the declared fields of `cls`, without the two that hold what is not declared."""
    return tuple(
        _field(field.name, field.encode_name, field.type)
        for field in msgspec.structs.fields(cls)
        if field.name not in ("unknown", "metadata")
    )


def _field(attribute: str, name: str, annotation: Any) -> Field:
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    inside = [get_args(member)[0] for member in members if get_origin(member) is tuple]
    parts, parts_of_tuple = (
        [member for member in found if isinstance(member, type) and issubclass(member, Typed)]
        for found in (members, inside)
    )
    is_plain = not (parts or inside or ArtifactKey in members)
    return Field(attribute, name, is_plain, *([*found, None][0] for found in (parts, parts_of_tuple)))


def given(value: Typed, fields: tuple[Field, ...], beyond: Mapping[str, Any]) -> JsonObject:
    """Return the fields that were given, by their wire names, and with them the undeclared ones of `beyond`."""
    found = dict(beyond)
    for attribute, name, is_plain, _, _ in fields:
        if beyond and name in beyond:
            raise InvalidArtifact(f"{type(value).__name__}.{name}", "a field of its own, and given as a free name")
        item = getattr(value, attribute)
        if item is UNSET:
            continue
        found[name] = item if is_plain else _plain(item)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, ArtifactKey):
        return value.text
    if isinstance(value, Typed):
        return given(value, fields_of(type(value)), value.unknown)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def take(fields: tuple[Field, ...], source: JsonObject, into: JsonObject) -> None:
    """Move the declared fields from `source` to `into`; what stays in `source` is unknown."""
    for _, name, _, part, part_of_tuple in fields:
        if name in source:
            item = source.pop(name)
            if part is not None and isinstance(item, dict):
                item = _folded(item, part)
            elif part_of_tuple is not None and isinstance(item, (list, tuple)):
                item = [_folded(one, part_of_tuple) if isinstance(one, dict) else one for one in item]
            into[name] = item


def _folded(value: JsonObject, part: type[Typed]) -> JsonObject:
    """Return `value` with its unknown fields moved to `unknown`, where the part keeps them."""
    rest = dict(value)
    fields: JsonObject = {"unknown": rest}
    take(fields_of(part), rest, fields)
    return fields


def typed(cls: type[AnyTyped], fields: JsonObject, where: str) -> AnyTyped:
    """Return the `cls` with these fields; raise InvalidArtifact that says which one does not fit."""
    try:
        return msgspec.convert(fields, cls, dec_hook=_read_key)
    except msgspec.ValidationError as error:
        raise InvalidArtifact(where, str(error)) from None
    except AttributeError:  # the converter takes what has items for an object, a range or an array too
        raise InvalidArtifact(where, "a value of a type that is not one of JSON's") from None
    except UnicodeEncodeError:  # the converter looks at the UTF-8 form of a text where it compares names
        raise InvalidArtifact(where, "a text with a lone surrogate; stored text must be valid Unicode") from None


def _read_key(kind: type[Any], value: Any) -> Any:
    if kind is not ArtifactKey:
        raise NotImplementedError(kind)
    if isinstance(value, ArtifactKey):
        return value
    try:
        return ArtifactKey(value)
    except SapwoodError as error:
        raise ValueError(str(error)) from None
