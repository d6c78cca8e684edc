"""Typed: the base of everything that is stored: frozen, checked when it is made, and it keeps what it does not know.

A field that a newer version wrote lands in `unknown` and is written back unchanged. UNSET means "not given" and is
never written; None means "given as null" and always is.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from sapwood.errors import InvalidArtifact

JsonObject = dict[str, Any]
Text = str | None | msgspec.UnsetType


class Typed(msgspec.Struct, frozen=True, kw_only=True):
    """A stored value; making one with a field of the wrong type raises InvalidArtifact."""

    unknown: JsonObject = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        kind = type(self)
        for name, accepted, look_inside in _CHECKS.get(kind) or _checks_of(kind):
            value = getattr(self, name)
            if type(value) not in accepted:
                if not _is_text(value, accepted):
                    raise InvalidArtifact(
                        f"{kind.__name__}.{name}", f"{_shown_type(value)}; expected {_names(accepted)}"
                    )
                value = str.__str__(value)  # of a subclass, what it holds
                msgspec.structs.force_setattr(self, name, value)
            if look_inside is not None:
                look_inside(f"{kind.__name__}.{name}", value)


class _AnythingGiven(frozenset[type]):
    """Every type but that of what was not given."""

    def __contains__(self, kind: object) -> bool:
        return kind is not msgspec.UnsetType


_ANYTHING_GIVEN = _AnythingGiven()
Inside = Callable[[str, Any], None]
_CHECKS: dict[type, tuple[tuple[str, frozenset[type], Inside | None], ...]] = {}


def _checks_of(kind: type[Typed]) -> tuple[tuple[str, frozenset[type], Inside | None], ...]:
    found = []
    for field in msgspec.structs.fields(kind):
        accepted, look_inside = _accepted(field.type)
        if accepted is None and field.required:
            accepted = _ANYTHING_GIVEN
        if accepted is not None:
            found.append((field.name, accepted, look_inside))
    _CHECKS[kind] = tuple(found)
    return _CHECKS[kind]


def _accepted(annotation: Any) -> tuple[frozenset[type] | None, Inside | None]:
    """Return the exact types a field takes (None: any) and a check of what is inside, if there is one."""
    if annotation is Any:
        return None, None
    origin = get_origin(annotation)
    if origin is Union or origin is types.UnionType:
        return _accepted_union(get_args(annotation))
    if origin is Literal:
        return frozenset({str}), _one_of(frozenset(get_args(annotation)))
    if origin is tuple:
        return frozenset({tuple}), _each(get_args(annotation)[0])
    if annotation is None:
        return frozenset({type(None)}), None
    return frozenset({origin or annotation}), None


def _accepted_union(members: tuple[Any, ...]) -> tuple[frozenset[type] | None, Inside | None]:
    together: frozenset[type] = frozenset()
    inner: dict[type, Inside] = {}
    for member in members:
        accepted, look_inside = _accepted(member)
        if accepted is None:
            return None, None
        together |= accepted
        if look_inside is not None:
            inner[next(iter(accepted))] = look_inside

    def inside(path: str, value: Any) -> None:
        if type(value) in inner:
            inner[type(value)](path, value)

    return together, inside if inner else None


def _one_of(values: frozenset[str]) -> Inside:
    def inside(path: str, value: Any) -> None:
        if value not in values:
            raise InvalidArtifact(path, f"{value!r}; expected one of {', '.join(sorted(values))}")

    return inside


def _each(annotation: Any) -> Inside:
    accepted, look_inside = _accepted(annotation)

    def inside(path: str, value: Any) -> None:
        for index, item in enumerate(value):
            if accepted is not None and type(item) not in accepted and not _is_text(item, accepted):
                raise InvalidArtifact(f"{path}[{index}]", f"{_shown_type(item)}; expected {_names(accepted)}")
            if look_inside is not None:
                look_inside(f"{path}[{index}]", item)

    return inside


def _is_text(value: object, accepted: frozenset[type]) -> bool:
    """Tell whether `value` is text that carries more, as a recorded prompt carries its key, where text is accepted."""
    return isinstance(value, str) and str in accepted


def _shown_type(value: object) -> str:
    return "not given" if value is msgspec.UNSET else type(value).__name__


def _names(accepted: frozenset[type]) -> str:
    names = {"None" if kind is type(None) else kind.__name__ for kind in accepted - {msgspec.UnsetType}}
    return " or ".join(sorted(names)) or "a value, which may be None"
