"""Ways to break a guard inside a recording process, so that the programme that watches it must go red."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

from sapwood.runtime import recorder, scope, session, spool
from sapwood.storage import sqlite, sqlite_file, sqlite_log


def _no_spool() -> None:
    """Calls of an open scope stay in memory only."""
    spool.Spool.write = lambda self, call: 1000  # type: ignore[method-assign]


def _normal_sync() -> None:
    """synchronous=NORMAL: commits are in order, but no scope end waits for the disk."""
    set_sync = sqlite_file.set_sync

    def set_sync_normal(connection: Any, journal: str) -> None:
        set_sync(connection, journal)
        connection.execute("pragma synchronous = normal")

    sqlite_file.set_sync = sqlite.set_sync = set_sync_normal  # type: ignore[attr-defined]


def _torn_calls() -> None:
    """The artifacts of one call go to the operating system one by one."""
    spool.Spool.write = _write_one_by_one(spool.Spool.write)  # type: ignore[method-assign, assignment]


def _write_one_by_one(write: Callable[[spool.Spool, spool.Call], int]) -> Callable[[spool.Spool, spool.Call], int]:
    def write_each(self: spool.Spool, call: spool.Call) -> int:
        written = 0
        for record in call.records:
            written += write(self, spool.Call([record]))
            time.sleep(0.002)
        return written

    return write_each


def _forgets_on_error() -> None:
    """What a commit could not store is dropped from memory, and from the spool."""
    commit = recorder.Recorder._commit

    def commit_or_forget(self: recorder.Recorder) -> Any:
        try:
            return commit(self)
        except Exception:
            self._records = []
            if self._spool is not None:
                self._spool.start_epoch()
            raise

    recorder.Recorder._commit = commit_or_forget  # type: ignore[method-assign]


def _keeps_torn_end() -> None:
    """After a write that was cut short the next frame follows the torn one."""

    def step_on(self: spool.Spool) -> None:
        self._size = os.fstat(self._fd).st_size

    spool.Spool._step_back = step_on  # type: ignore[method-assign]


def _not_shielded() -> None:
    """A cancelled scope end leaves its commit to a thread that nobody waits for."""

    async def not_shielded(call: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.to_thread(call, *args)

    scope.shielded = session.shielded = not_shielded  # type: ignore[attr-defined, assignment]


def _never_in_doubt() -> None:
    """A commit that was interrupted after it had happened counts as one that had not."""
    recorder.Recorder._drop_what_we_stored = lambda self, keys: False  # type: ignore[method-assign]


def _child_keeps_all() -> None:
    """A forked child goes on with the connections and the spool of its parent."""
    recorder.Recorder._leave_to_parent = lambda self: None  # type: ignore[method-assign]
    sqlite.SqliteStore._leave_to_parent = lambda self: None  # type: ignore[method-assign]
    spool.Spool.leave_to_parent = lambda self: None  # type: ignore[method-assign]


def _log_not_watched() -> None:
    """Nobody looks whether the log is still the one that other processes see."""
    sqlite_log.WriteAheadLog.check = lambda self, where: None  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[], None]] = {
    "no_spool": _no_spool,
    "normal_sync": _normal_sync,
    "torn_calls": _torn_calls,
    "forgets_on_error": _forgets_on_error,
    "keeps_torn_end": _keeps_torn_end,
    "not_shielded": _not_shielded,
    "never_in_doubt": _never_in_doubt,
    "child_keeps_all": _child_keeps_all,
    "log_not_watched": _log_not_watched,
}


def break_it(mutant: str) -> None:
    """Break one guard in this process, for as long as it lives; an empty name breaks nothing."""
    if mutant:
        MUTANTS[mutant]()
