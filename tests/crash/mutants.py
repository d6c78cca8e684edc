"""Ways to break a guard inside a recording process, so that the programme that watches it must go red."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from sapwood.runtime import spool
from sapwood.storage import sqlite, sqlite_file


def _no_spool() -> None:
    """Calls of an open scope stay in memory only."""
    spool.Spool.write = lambda _self, _call: 1000  # type: ignore[method-assign]


def _normal_sync() -> None:
    """synchronous=NORMAL: commits are in order, but no scope end waits for the disk."""
    set_sync = sqlite_file.set_sync

    def set_sync_normal(connection: Any, journal: str) -> None:
        set_sync(connection, journal)
        connection.execute("pragma synchronous = normal")

    sqlite_file.set_sync = sqlite.set_sync = set_sync_normal  # type: ignore[attr-defined]


def _torn_frames() -> None:
    """A frame of the spool goes to the operating system in two steps."""
    spool.Spool.write = _write_in_two_steps(spool.Spool.write)  # type: ignore[method-assign]


def _write_in_two_steps(write: Callable[[spool.Spool, spool.Call], int]) -> Callable[[spool.Spool, spool.Call], int]:
    def write_each(self: spool.Spool, call: spool.Call) -> int:
        written = 0
        for record in call.records:
            written += write(self, spool.Call([record]))
            time.sleep(0.002)
        return written

    return write_each


MUTANTS: dict[str, Callable[[], None]] = {
    "no_spool": _no_spool,
    "normal_sync": _normal_sync,
    "torn_calls": _torn_frames,
}


def break_it(mutant: str) -> None:
    """Break one guard in this process, for as long as it lives; an empty name breaks nothing."""
    if mutant:
        MUTANTS[mutant]()
