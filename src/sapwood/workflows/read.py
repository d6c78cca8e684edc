"""Source values -> plain data of the shapes in `core.workflow_fields`, with the place of every value.

A value of the wrong shape is a mistake and is left out, so that the rest of the file is still read and checked.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from sapwood.core.mistakes import Mistake, Path, Problem, allowed_names, unknown_name
from sapwood.core.workflow_fields import (
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
from sapwood.workflows.source import Entries, Items, Scalar, Value, is_ambiguous

ABSENT: Final[Any] = object()
"""Stands for a value that was of the wrong shape."""


class Reader:
    """Reads one file; collects the mistakes and the places."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._places: dict[Path, Value] = {}
        self._keys: dict[Path, Scalar] = {}
        self._broken: set[str | int] = set()
        self.mistakes: list[Mistake] = []

    def is_whole(self, part: str) -> bool:
        """Tell whether nothing below this top-level key was left out."""
        return part not in self._broken

    def read(self, shape: Shape, value: Value, path: Path = ()) -> Any:
        """Return the plain data of `value`, or ABSENT after noting what is wrong with it."""
        self._places[path] = value
        match shape:
            case Group():
                return self._group(shape, value, path)
            case ByKind():
                return self._by_kind(shape, value, path)
            case TableOf():
                return self._table(shape, value, path)
            case ListOf():
                return self._list(shape, value, path)
            case TextOrList():
                return self._json(value, path) if isinstance(value, Items) else self._scalar(Text(1000), value, path)
            case Json():
                return self._json(value, path)
            case _:
                return self._scalar(shape, value, path)

    def note(self, problem: Problem) -> None:
        """Turn a problem at a path into a mistake at a line: that of the value, or of the nearest one around it."""
        path = problem.path
        self._broken.update(path[:1])
        while path and path not in self._places:
            path = path[:-1]
        place: Value = self._keys[path] if problem.at_key and path in self._keys else self._places[path]
        column = place.column
        if problem.offset and isinstance(place, Scalar) and place.is_one_line:
            column += problem.offset + (not place.is_plain)
        self.mistakes.append(Mistake(self._file, place.line, column, problem.what, problem.allowed))

    def _group(self, group: Group, value: Value, path: Path) -> Any:
        if not isinstance(value, Entries):
            return self._wrong(path, f"{_named(value)} where {_with_article(group.what)} belongs", _names(group))
        fields = {field.name: field for field in group.fields}
        found = {}
        for key, inner in value.entries:
            field = fields.get(key.text)
            self._keys[(*path, key.text)] = key
            self._places.setdefault((*path, key.text), inner)
            if field is None:
                self._unknown_key(key, group, (*path, key.text))
                continue
            found[key.text] = self.read(field.shape, inner, (*path, key.text))
        for field in group.fields:
            if field.required and field.name not in found:
                self.note(Problem(path, f"this {group.what} has no {field.name!r}", field.about, at_key=True))
        return {name: read for name, read in found.items() if read is not ABSENT}

    def _unknown_key(self, key: Scalar, group: Group, path: Path) -> None:
        what, allowed = unknown_name(
            f"key in {_with_article(group.what)}:", key.text, [field.name for field in group.fields]
        )
        self.note(Problem(path, what, allowed, at_key=True))

    def _by_kind(self, shape: ByKind, value: Value, path: Path) -> Any:
        kinds = dict(shape.kinds)
        if not isinstance(value, Entries):
            return self._wrong(path, f"{_named(value)} where a {shape.what} belongs", "a mapping with a kind")
        given = next((inner for key, inner in value.entries if key.text == "kind"), None)
        if given is None:
            return self._wrong(path, f"this {shape.what} has no 'kind'", allowed_names(kinds), at_key=True)
        kind = given.value if isinstance(given, Scalar) else None
        if not isinstance(kind, str) or kind not in kinds:
            self._places[(*path, "kind")] = given
            word = given.text if isinstance(given, Scalar) else _named(given)
            return self._wrong((*path, "kind"), *unknown_name(f"kind of {shape.what}", word, kinds))
        return self._group(kinds[kind], value, path)

    def _table(self, table: TableOf, value: Value, path: Path) -> Any:
        if not isinstance(value, Entries):
            return self._wrong(path, f"{_named(value)} where a mapping belongs")
        found = {}
        for key, inner in value.entries:
            here = (*path, key.text)
            self._keys[here] = key
            self._places[here] = inner
            if is_ambiguous(key) or not isinstance(key.value, int if table.is_numbered and key.is_plain else str):
                self._not_text(key, here)
            elif not re.fullmatch(table.pattern, key.text):
                self.note(Problem(here, f"not a name: {key.text[:80]!r}", f"expected {table.pattern}", at_key=True))
            else:
                found[key.text] = self.read(table.shape, inner, here)
        if len(value.entries) < table.at_least:
            self.note(Problem(path, f"at least {table.at_least} is needed", at_key=True))
        return found

    def _not_text(self, key: Scalar, path: Path) -> None:
        what = f"the name {key.text[:80]!r} is not read as text by every YAML program"
        self.note(Problem(path, what, f"put it in quotes or choose another name: {key.text[:80]!r}", at_key=True))

    def _list(self, shape: ListOf, value: Value, path: Path) -> Any:
        if not isinstance(value, Items):
            return self._wrong(path, f"{_named(value)} where a list belongs", "write [a, b] or lines that begin with -")
        if not shape.at_least <= len(value.items) <= shape.at_most:
            return self._wrong(path, f"{len(value.items)} items", f"allowed: {shape.at_least} to {shape.at_most}")
        read = [self.read(shape.shape, item, (*path, place)) for place, item in enumerate(value.items)]
        return ABSENT if ABSENT in read and not isinstance(shape.shape, Group) else read

    def _json(self, value: Value, path: Path) -> Any:
        self._places[path] = value
        if isinstance(value, Items):
            return [self._json(item, (*path, place)) for place, item in enumerate(value.items)]
        if isinstance(value, Entries):
            for key, _ in value.entries:
                self._keys[(*path, key.text)] = key
                if is_ambiguous(key) or not isinstance(key.value, str):
                    self._not_text(key, (*path, key.text))
            return {key.text: self._json(inner, (*path, key.text)) for key, inner in value.entries}
        if is_ambiguous(value):
            return self._ambiguous(value, path)
        if isinstance(value.value, float) and not math.isfinite(value.value):
            return self._wrong(path, "a number too large to hold")
        return value.value

    def _scalar(self, shape: Shape, value: Value, path: Path) -> Any:
        expected, given = _expected(shape), value.value if isinstance(value, Scalar) else None
        if not isinstance(value, Scalar):
            return self._wrong(path, f"{_named(value)} where {expected} belongs")
        match shape:
            case Text(max_chars=limit, may_be_empty=may_be_empty) if isinstance(given, str):
                if is_ambiguous(value):
                    return self._ambiguous(value, path)
                if len(given) > limit:
                    return self._wrong(path, f"a text of {len(given)} characters", f"at most {limit}")
                return given if given or may_be_empty else self._wrong(path, "an empty text", "write something")
            case Choice(words=words) if isinstance(given, str):
                return given if given in words else self._wrong(path, *unknown_name("word", given, words))
            case Truth() if isinstance(given, bool):
                return given
            case Whole(low=low, high=high) if type(given) is int:
                return given if low <= given <= high else self._wrong(path, f"{given} is out of range", expected)
            case Decimal(low=least, high=most) if isinstance(given, int | float) and not isinstance(given, bool):
                return given if least <= given <= most else self._wrong(path, f"{given} is out of range", expected)
        return self._wrong(path, f"{_named(value)} where {expected} belongs", _hint(shape, value))

    def _ambiguous(self, value: Scalar, path: Path) -> Any:
        what = f"{value.text[:80]!r} is not read as text by every YAML program"
        return self._wrong(path, what, "put it in quotes, or write true or false")

    def _wrong(self, path: Path, what: str, allowed: str = "", *, at_key: bool = False) -> Any:
        self.note(Problem(path, what, allowed, at_key=at_key))
        return ABSENT


def _names(group: Group) -> str:
    return allowed_names(field.name for field in group.fields)


def _expected(shape: Shape) -> str:
    match shape:
        case Whole(low=low, high=high):
            return f"a whole number from {low} to {high}"
        case Decimal(low=low, high=high):
            return f"a number from {low:g} to {high:g}"
        case Truth():
            return "true or false"
        case Choice(words=words):
            return f"one of {', '.join(words)}"
        case _:
            return "text"


def _hint(shape: Shape, value: Scalar) -> str:
    if isinstance(shape, Text | Choice) and value.is_plain and value.value is not None:
        return "put it in quotes if text is meant"
    return "write true or false" if isinstance(shape, Truth) else ""


def _with_article(what: str) -> str:
    """Return `an edge`, `a gate node`; `limits` and `defaults` are many."""
    return what if what.endswith("s") else f"{'an' if what[0] in 'aeiou' else 'a'} {what}"


def _named(value: Value) -> str:
    if isinstance(value, Items):
        return "a list"
    if isinstance(value, Entries):
        return "a mapping"
    if value.value is None:
        return "nothing"
    if isinstance(value.value, bool):
        return value.text
    return f"the {'number' if isinstance(value.value, int | float) else 'text'} {value.text[:60]!r}"
