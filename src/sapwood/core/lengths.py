"""What a "char" is: one UTF-16 code unit, as in JavaScript; and the head-and-tail cut that counts in it.

Most text has no character outside the Basic Multilingual Plane; there a unit is a code point and slices are enough.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sapwood.core.hashing import utf8
from sapwood.errors import InvalidText

REPLACEMENT: Final = "\ufffd"
_LEADS_OF_PAIRS: Final = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")  # UTF-8 of what takes two units in UTF-16


class Cut(NamedTuple):
    """The part of a text that was kept, and how much there was of it."""

    text: str
    original_chars: int
    included_chars: int

    @property
    def dropped_chars(self) -> int:
        return self.original_chars - self.included_chars


def count_units(text: str, field: str = "text") -> int:
    """Return the length of `text` in UTF-16 units; raise InvalidText that names `field` at a lone surrogate."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode("utf-16-le")) // 2
    except UnicodeEncodeError as error:
        raise InvalidText(field, error.start) from None


def encode_counted(text: str, field: str) -> tuple[bytes, int]:
    """Return `text` as UTF-8 and its length in UTF-16 units; raise InvalidText as `count_units` does."""
    data = utf8(text, field)
    if len(data) == len(text):
        return data, len(text)
    return data, len(text) + sum(data.count(lead) for lead in _LEADS_OF_PAIRS if lead in data)


def head_tail(text: str, limit: int, units: int | None = None) -> Cut:
    """Keep the first `limit // 2` and the last `limit - limit // 2` units of `text`, or all of it when it fits.

    `units` is its length where the caller knows it. A surrogate pair that is cut leaves U+FFFD for the half that stays,
    so every count is exact and two halves never fuse into another character.
    """
    units = count_units(text) if units is None else units
    if units <= limit:
        return Cut(text, units, units)
    head, tail = limit // 2, limit - limit // 2
    if units == len(text):
        return Cut(text[:head] + text[units - tail :], units, limit)
    data = text.encode("utf-16-le")
    return Cut(_whole(data[: 2 * head]) + _whole(data[len(data) - 2 * tail :]), units, limit)


def shorten(text: str, cap: int) -> str:
    """Return at most `cap` code points of `text`; a cut ends in `...` unless the cap is 3 or less."""
    if len(text) <= cap:
        return text
    return f"{text[: cap - 3]}..." if cap > 3 else text[:cap]


def _whole(data: bytes) -> str:
    """Decode UTF-16 units that may start or end with half a pair."""
    first = REPLACEMENT if data[1:2] and 0xDC <= data[1] <= 0xDF else ""
    last = REPLACEMENT if data[1:2] and 0xD8 <= data[-1] <= 0xDB else ""
    return first + data[2 * len(first) : len(data) - 2 * len(last)].decode("utf-16-le") + last
