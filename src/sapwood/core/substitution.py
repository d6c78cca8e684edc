"""`${inputs.topic}` in the texts of a workflow: the value of a field, put in its place once and never looked at again.

A text that is nothing but one reference becomes the value itself, with its type. Inside a longer text a value that is
no text appears as canonical JSON. `$${` is a literal `${`. There is no other syntax: no expressions, no format strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sapwood.core.canonical import canonical_json

_MARK: Final = re.compile(r"\$(\$?)\{([^}]*)(\}?)")
_REFERENCE: Final = re.compile(r"(inputs|item|index|name)((?:\.[A-Za-z_][A-Za-z0-9_]*)*)")


def references(value: Any) -> Iterator[tuple[str, ...]]:
    """Yield the paths that the texts in `value` refer to; a malformed one comes as an empty path."""
    if isinstance(value, str):
        for found in _MARK.finditer(value):
            if not found[1]:
                name = _REFERENCE.fullmatch(found[2]) if found[3] else None
                yield tuple(found[2].split(".")) if name else ()
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references(item)


def substitute(value: Any, scope: Mapping[str, Any]) -> Any:
    """Return `value` with every reference replaced from `scope`; one that leads nowhere is null, or empty in a text."""
    if isinstance(value, str):
        whole = _MARK.fullmatch(value)
        if whole and not whole[1] and whole[3]:
            return _look_up(whole[2], scope)
        return _MARK.sub(lambda found: _inside(found, scope), value)
    if isinstance(value, Mapping):
        return {key: substitute(item, scope) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [substitute(item, scope) for item in value]
    return value


def substitute_text(text: str, scope: Mapping[str, Any]) -> str:
    """Return `text` with its references replaced: always text, also when it is one reference alone."""
    return _as_text(substitute(text, scope))


def _inside(found: re.Match[str], scope: Mapping[str, Any]) -> str:
    return found[0][1:] if found[1] else _as_text(_look_up(found[2], scope))


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical_json(value).decode()


def _look_up(path: str, scope: Mapping[str, Any]) -> Any:
    value: Any = scope
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
