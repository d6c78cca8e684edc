"""ArtifactKey: where an artifact stands in its tree, and when it was made.

`ak:` and 1 to 64 ULID segments joined by `/`. A segment is 128 bits as 26 upper-case Crockford digits: 48 bits of
milliseconds, 80 bits of randomness. Sorting whole keys gives depth-first order, each parent before its children.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from sapwood.errors import ClockOutOfRange, InvalidKey, KeyTooDeep, WrongArgument

MAX_DEPTH: Final = 64
SEGMENT_BYTES: Final = 16
MAX_TIME_MS: Final = 2**48 - 1
ENTROPY_BYTES: Final = 10

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [high + low for high in _CROCKFORD for low in _CROCKFORD]
_TO_BASE_32 = str.maketrans(_CROCKFORD, "0123456789abcdefghijklmnopqrstuv")  # the digits that int() knows
_SEGMENT = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
_KEY = re.compile(f"ak:{_SEGMENT}(?:/{_SEGMENT})*")
_ENTROPY_BITS = 8 * ENTROPY_BYTES


def next_ulid(last: int | None, now_ms: int, entropy: bytes) -> int:
    """Return the ULID after `last` at `now_ms`, as a number: always greater than `last`, whatever the clock does."""
    if type(now_ms) is not int:
        raise ClockOutOfRange(now_ms)
    if last is not None and (type(last) is not int or last < 0 or last >> 128):
        raise WrongArgument("last", last, "a ULID as a number below 2**128, or None")
    if last is not None and now_ms <= last >> _ENTROPY_BITS:
        number = last + 1  # the random part counts up; its overflow is the next millisecond
    else:
        if type(entropy) is not bytes or len(entropy) != ENTROPY_BYTES:
            raise WrongArgument("entropy", entropy, f"{ENTROPY_BYTES} bytes")
        number = now_ms << _ENTROPY_BITS | int.from_bytes(entropy, "big")
    if number >> 128:
        raise ClockOutOfRange(now_ms)
    return number


def ulid_text(number: int) -> str:
    """Return the 26 digits of a ULID given as a number below 2**128."""
    pairs = _PAIRS
    return (
        _high_digits(number >> 40)
        + pairs[number >> 30 & 1023]
        + pairs[number >> 20 & 1023]
        + pairs[number >> 10 & 1023]
        + pairs[number & 1023]
    )


@lru_cache(1024)  # those of one series share them: it counts up
def _high_digits(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(80, -1, -10)])


def ulid_number(segment: str) -> int:
    """Return the number of a valid segment."""
    return int(segment.translate(_TO_BASE_32), 32)


@lru_cache(4096)  # neighbours in a tree share their ancestors
def _before_last(packed: bytes) -> str:
    """Return the text that stands before the last segment of a child of `packed`."""
    if not packed:
        return "ak:"
    return f"{_before_last(packed[:-SEGMENT_BYTES])}{ulid_text(int.from_bytes(packed[-SEGMENT_BYTES:], 'big'))}/"


class ArtifactKey:
    """A valid key; immutable, hashable, ordered. Its text and its stored form are each made when first asked for."""

    __slots__ = ("_packed", "_text")
    _packed: bytes | None
    _text: str | None

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not _KEY.fullmatch(text):
            raise InvalidKey(text)
        depth = len(text) // 27
        if depth > MAX_DEPTH:
            raise KeyTooDeep(depth, MAX_DEPTH)
        _set_text(self, str.__str__(text))  # of a subclass, what it holds: canonical JSON takes plain text alone
        _set_packed(self, None)

    @classmethod
    def of_packed(cls, packed: bytes) -> ArtifactKey:
        """Wrap a stored form that is known to be valid, because this program made or checked it."""
        key = _new_key(cls)
        _set_packed(key, packed)
        _set_text(key, None)
        return key

    @classmethod
    def unpack(cls, packed: bytes) -> ArtifactKey:
        """Read a key from its stored form, 16 bytes a segment."""
        if not isinstance(packed, bytes):
            raise InvalidKey(packed)
        size = len(packed)
        if size & 15 or not SEGMENT_BYTES <= size <= SEGMENT_BYTES * MAX_DEPTH:
            raise InvalidKey(packed)
        key = _new_key(cls)
        _set_packed(key, packed)
        _set_text(key, None)
        return key

    def pack(self) -> bytes:
        """Return the stored form: 16 bytes a segment, in the same order as the text."""
        packed = self._packed
        if packed is None:
            packed = b"".join([ulid_number(segment).to_bytes(16, "big") for segment in self.segments])
            _set_packed(self, packed)
        return packed

    @property
    def text(self) -> str:
        text = self._text
        if text is None:
            packed = self.pack()
            text = _before_last(packed[:-SEGMENT_BYTES]) + ulid_text(int.from_bytes(packed[-SEGMENT_BYTES:], "big"))
            _set_text(self, text)
        return text

    def child(self, segment: str) -> ArtifactKey:
        """Return the key of a child with this segment."""
        if not isinstance(segment, str) or "/" in segment:
            raise WrongArgument("segment", segment, "one ULID: 26 digits in upper case, the first 0 to 7")
        if self.depth >= MAX_DEPTH:
            raise KeyTooDeep(self.depth + 1, MAX_DEPTH)
        return ArtifactKey(f"{self.text}/{str.__str__(segment)}")

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.text[3:].split("/"))

    @property
    def depth(self) -> int:
        return len(self.pack()) // SEGMENT_BYTES

    @property
    def parent(self) -> ArtifactKey | None:
        packed = self.pack()
        return ArtifactKey.of_packed(packed[:-SEGMENT_BYTES]) if len(packed) > SEGMENT_BYTES else None

    @property
    def root(self) -> ArtifactKey:
        return ArtifactKey.of_packed(self.pack()[:SEGMENT_BYTES])

    @property
    def last_segment(self) -> str:
        return ulid_text(int.from_bytes(self.pack()[-SEGMENT_BYTES:], "big"))

    @property
    def time_ms(self) -> int:
        """When the artifact was made, in milliseconds since 1970."""
        packed = self.pack()
        return int.from_bytes(packed[-SEGMENT_BYTES:-ENTROPY_BYTES], "big")

    def is_ancestor_of(self, other: ArtifactKey) -> bool:
        if not isinstance(other, ArtifactKey):
            raise WrongArgument("other", other, "an ArtifactKey")
        mine, theirs = self.pack(), other.pack()
        return len(theirs) > len(mine) and theirs.startswith(mine)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an ArtifactKey never changes: cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an ArtifactKey never changes: cannot delete {name}")

    def __reduce__(self) -> tuple[type[ArtifactKey], tuple[str]]:
        return ArtifactKey, (self.text,)

    def __hash__(self) -> int:
        return hash(self.pack())

    def __eq__(self, other: object) -> bool:
        return self.pack() == other.pack() if isinstance(other, ArtifactKey) else NotImplemented

    def __lt__(self, other: ArtifactKey) -> bool:
        return self.pack() < other.pack() if isinstance(other, ArtifactKey) else NotImplemented

    def __le__(self, other: ArtifactKey) -> bool:
        return self.pack() <= other.pack() if isinstance(other, ArtifactKey) else NotImplemented

    def __gt__(self, other: ArtifactKey) -> bool:
        return self.pack() > other.pack() if isinstance(other, ArtifactKey) else NotImplemented

    def __ge__(self, other: ArtifactKey) -> bool:
        return self.pack() >= other.pack() if isinstance(other, ArtifactKey) else NotImplemented

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"ArtifactKey({self.text!r})"


_new_key = object.__new__
# The slots' own setters: what object.__setattr__ would find, without looking it up for each of a million keys.
_set_text = ArtifactKey.__dict__["_text"].__set__
_set_packed = ArtifactKey.__dict__["_packed"].__set__
