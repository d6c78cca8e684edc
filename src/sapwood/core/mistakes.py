"""Mistakes in a file that a person wrote: where, what is wrong, what is allowed, and the name they may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

Path = tuple[str | int, ...]
"""How to get to a value of the file: names of mappings and places in lists."""


class Problem(NamedTuple):
    """A mistake at a path, before anybody knows the line. `offset` counts characters into the text there, from 0.

    With `at_key` it is the name that is wrong, not what stands under it.
    """

    path: Path
    what: str
    allowed: str = ""
    offset: int = 0
    at_key: bool = False


class Mistake(NamedTuple):
    """A mistake at a place of a file; line and column count from 1."""

    file: str
    line: int
    column: int
    what: str
    allowed: str = ""

    def __str__(self) -> str:
        allowed = f"; {self.allowed}" if self.allowed else ""
        return f"{self.file}:{self.line}:{self.column}: {self.what}{allowed}"


def unknown_name(what: str, name: str, known: Iterable[str]) -> tuple[str, str]:
    """Return the two halves of a mistake: that `name` is unknown, and what it could have been."""
    names = list(dict.fromkeys(known))
    close = get_close_matches(name, names, n=1, cutoff=0.6) or get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"unknown {what} {name[:80]!r}", f"{meant}{allowed_names(names)}"


def allowed_names(names: Iterable[str]) -> str:
    """Say which names are allowed, not more than a reader can take in."""
    listed = list(names)
    shown = ", ".join(listed[:20]) + (f" and {len(listed) - 20} more" if len(listed) > 20 else "")
    return f"allowed: {shown}" if listed else "none is declared"
