"""The real clock, real entropy, and the factory that mints keys from them."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable

from sapwood.core.keys import ENTROPY_BYTES, MAX_DEPTH, SEGMENT_BYTES, ArtifactKey, next_ulid, ulid_text
from sapwood.errors import KeyTooDeep, WrongArgument


def now_ms() -> int:
    """Return the milliseconds since 1970."""
    return time.time_ns() // 1_000_000


_all_series: weakref.WeakSet[_Series] = weakref.WeakSet()


class _Series:
    """ULIDs of which each is greater than those before it."""

    def __init__(self, clock: Callable[[], int], entropy: Callable[[int], bytes]) -> None:
        self._clock = clock
        self._entropy = entropy
        self._lock = threading.Lock()
        self._last: int | None = None
        _all_series.add(self)

    def next(self) -> int:
        with self._lock:
            clock_ms = self._clock()
            last = self._last
            fresh = last is None or type(clock_ms) is not int or clock_ms > last >> 80  # next_ulid refuses what is none
            number = next_ulid(last, clock_ms, self._entropy(ENTROPY_BYTES) if fresh else b"")
            self._last = number
            return number

    def start_over(self) -> None:
        """In a forked child: leave the parent's series, so that no key is minted in both, and its lock."""
        self._lock = threading.Lock()
        if self._last is not None:
            self._last = next_ulid(None, (self._last >> 80) + 1, self._entropy(ENTROPY_BYTES))


_of_this_process = _Series(now_ms, os.urandom)


class KeyFactory:
    """Mints keys that strictly increase, in every thread and whatever the clock does.

    All factories of a process that have the real clock and real entropy are one series; one that is given its own is a
    series of its own.
    """

    def __init__(self, clock: Callable[[], int] = now_ms, entropy: Callable[[int], bytes] = os.urandom) -> None:
        if not callable(clock):
            raise WrongArgument("clock", clock, "a function that gives milliseconds since 1970")
        if not callable(entropy):
            raise WrongArgument("entropy", entropy, "a function that gives as many random bytes as it is asked for")
        self._entropy = entropy
        is_real = clock is now_ms and entropy is os.urandom
        self._next = (_of_this_process if is_real else _Series(clock, entropy)).next

    def root(self) -> ArtifactKey:
        """Return a new root key."""
        return ArtifactKey.of_packed(self._next().to_bytes(SEGMENT_BYTES, "big"))

    def child(self, parent: ArtifactKey) -> ArtifactKey:
        """Return a new key directly below `parent`."""
        if not isinstance(parent, ArtifactKey):
            raise WrongArgument("parent", parent, "an ArtifactKey")
        above = parent.pack()
        if len(above) >= SEGMENT_BYTES * MAX_DEPTH:
            raise KeyTooDeep(parent.depth + 1, MAX_DEPTH)
        return ArtifactKey.of_packed(above + self._next().to_bytes(SEGMENT_BYTES, "big"))

    def root_at(self, time_ms: int) -> ArtifactKey:
        """Return a new root key whose time is `time_ms`: the key of something that is that old."""
        number = next_ulid(None, time_ms, self._entropy(ENTROPY_BYTES))
        return ArtifactKey.of_packed(number.to_bytes(SEGMENT_BYTES, "big"))

    def segment(self) -> str:
        """Return a new ULID, greater than every one before it."""
        return ulid_text(self._next())

    def number(self) -> int:
        """Return a new ULID as a number, greater than every one before it."""
        return self._next()


def _start_all_over() -> None:
    for series in list(_all_series):
        series.start_over()


os.register_at_fork(after_in_child=_start_all_over)
