"""The bus: a recording call goes to the spool, then to memory, then to the listeners; a scope end commits it all.

Two promises. When a call has returned, its bytes are with the operating system: they survive the death of the process.
When `flush` has returned, everything recorded so far is committed and synced: it survives a power cut. There is no
queue and no writer thread, so nothing can be dropped and nothing is late.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from sapwood.core.hashing import hash_bytes
from sapwood.core.keys import ArtifactKey
from sapwood.core.record import Record
from sapwood.core.references import target_of
from sapwood.errors import (
    DanglingReference,
    DuplicateKey,
    InvalidArtifact,
    RunSealed,
    StoreClosed,
    StoreError,
    StoreUnwritable,
)
from sapwood.ports import ArtifactStore, Claim, RunEnd, RunStart
from sapwood.runtime.spool import Call, Spool

COMMIT_BYTES: Final = 1024 * 1024
COMMIT_AFTER_S: Final = 0.25
REFUSE_BYTES: Final = 64 * 1024 * 1024  # kept in memory while the disk takes nothing; beyond it calls are refused

Listener = Callable[[Sequence[Record]], None]

logger = logging.getLogger("sapwood.recorder")
_open_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


class Recorder:
    """Records for every scope of one process; synchronous, and safe to call from any thread."""

    def __init__(self, store: ArtifactStore, spool_folder: Path | None, spool_name: str) -> None:
        self.store = store
        self.owner = spool_name
        self.duplicates = 0  # how many artifacts were refused because their key was taken
        self._spool_folder = spool_folder
        self._spool: Spool | None = None
        self._lock = threading.RLock()
        self._records: list[Record] = []
        self._looked_at: tuple[list[Record], int] = ([], 0)  # of which list, and how many of it, `_keys` has the keys
        self._keys: set[ArtifactKey] = set()
        self._starts: list[RunStart] = []
        self._bytes = 0
        self._in_doubt = False  # a commit was tried and nobody knows what came of it
        self._due_at = 0.0
        self._known: set[ArtifactKey] = set()  # shared artifacts that are stored
        self._open_runs: set[ArtifactKey] = set()  # seen unsealed since the last commit
        self._listeners: list[Listener] = []
        self._refusal: Exception | None = None
        _open_recorders.add(self)

    # -- recording ----------------------------------------------------------------------------------------------------

    def record(self, records: Sequence[Record], starts: Sequence[RunStart] = ()) -> None:
        """Record one call whose keys were minted here: all of it, or nothing and an error."""
        self._take(records, starts)
        if self._listeners:
            self._notify(records)

    def publish(self, records: Sequence[Record], starts: Sequence[RunStart] = ()) -> None:
        """Record artifacts whose keys somebody else made: one whose key is taken is refused, and the first stays."""
        with self._lock:
            self.check_open()
            self._refuse_taken(records)
            for record in records:
                if hash_bytes(record.content) != record.content_hash:
                    raise InvalidArtifact(f"{record.kind} {record.key}", "its content_hash is not that of its content")
                self._refuse_sealed(record.key.root)
                self._look_at_order(record)
            self.check_references(records)
            self._take(records, starts)
        if self._listeners:
            self._notify(records)

    def _take(self, records: Sequence[Record], starts: Sequence[RunStart]) -> None:
        """Hand the call to the spool and keep its rows; listeners hear of it when the lock is free again."""
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if self._records and (self._bytes >= COMMIT_BYTES or time.monotonic() >= self._due_at):
                self._commit_on_the_way()
            call = Call(records, starts)
            if self._spool is None:
                self._start_spool()
            if not self._records:
                self._due_at = time.monotonic() + COMMIT_AFTER_S
            self._bytes += self._spool.write(call) if self._spool is not None else _size(records)
            self._records += records
            if starts:
                self._starts += starts

    def check_references(self, records: Sequence[Record]) -> None:
        """Refuse references to shared artifacts that are not stored; those inside a run may come first."""
        for record in records:
            if record.kind == "RefArtifact":
                target = target_of(record)
                if target.root != record.key.root and not self.is_stored(target):
                    raise DanglingReference(record.key.text, target.text)

    def is_stored(self, key: ArtifactKey) -> bool:
        """Tell whether a shared artifact is stored or about to be; the answer yes holds for ever."""
        if key in self._known:
            return True
        found = key in self._pending_keys() or bool(self.store.stored([key]))
        if found:
            self._known.add(key)
        return found

    def know(self, key: ArtifactKey) -> None:
        """Take note that this shared artifact is stored."""
        self._known.add(key)

    def check_open(self) -> None:
        """Raise what makes recording impossible: the store is closed, or belongs to the process before a fork."""
        if self._refusal is not None:
            raise self._refusal

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after each recording; its failures are logged and stop nothing. Returns the way out."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # -- committing ---------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Commit and sync everything recorded so far. What the store refuses is dropped, logged and raised."""
        with self._lock:
            self.check_open()
            refused = self._commit()
        if refused is not None:
            raise refused

    def append(
        self,
        records: Sequence[Record],
        starts: Sequence[RunStart] = (),
        end: RunEnd | None = None,
        claims: Sequence[Claim] = (),
    ) -> None:
        """Commit at once, after everything recorded before. Raises DuplicateClaim when somebody was first."""
        with self._lock:
            self.flush()
            self.store.append(records, starts=starts, claims=claims, end=end)
        if self._listeners:
            self._notify(records)

    def _commit(self) -> DuplicateKey | RunSealed | None:
        """Commit what is pending; return what the store refused of it, once the rest is safe."""
        refused: DuplicateKey | RunSealed | None = None
        while True:
            try:
                was_in_doubt, self._in_doubt = self._in_doubt, True
                self.store.append(self._records, starts=self._starts)
                break
            except DuplicateKey as error:
                if was_in_doubt and self._drop_what_we_stored(error.keys):
                    continue
                self._drop(set(error.keys), None, error)
                refused = error
            except RunSealed as error:
                self._drop(set(), error.run, error)
                refused = error
        self._records, self._starts, self._bytes = [], [], 0
        self._in_doubt = False
        self._open_runs.clear()
        if self._spool is not None:
            self._spool.start_epoch()
        return refused

    def _drop_what_we_stored(self, keys: Sequence[str]) -> bool:
        """After a commit in doubt: tell whether it did happen, and if so, forget what it stored."""
        ours = {record.key.text: record for record in self._records}
        with self.store.read() as reader:
            stored = {key for key in keys if reader.find(ArtifactKey(key)) == ours[key]}
            self._records = [record for record in self._records if record.key.text not in stored]
            self._starts = [start for start in self._starts if reader.find_run(start.key) is None]
        return bool(stored)

    def _commit_on_the_way(self) -> None:
        """Commit between scope ends. A disk that takes nothing now may do so later: the spool still has it all."""
        try:
            refused = self._commit()
        except StoreError as error:
            if self._bytes >= REFUSE_BYTES:
                raise
            logger.warning("commit postponed: %s", error)
            self._due_at = time.monotonic() + COMMIT_AFTER_S
        else:
            if refused is not None:
                raise refused

    def _drop(self, keys: set[str], run: str | None, error: Exception) -> None:
        def is_refused(key: ArtifactKey) -> bool:
            return key.text in keys or key.root.text == run

        before = len(self._records)
        self._records = [record for record in self._records if not is_refused(record.key)]
        self._starts = [start for start in self._starts if not is_refused(start.key)]
        self.duplicates += before - len(self._records) if isinstance(error, DuplicateKey) else 0
        logger.error("%d artifacts refused: %s", before - len(self._records), error)

    # -- the rest -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit what is pending and give the spool back; what cannot be committed stays in it."""
        with self._lock:
            if self._refusal is not None:
                return
            self._refusal = StoreClosed(self.store.location)
            try:
                refused = self._commit() if self._records else None
            except BaseException:
                self._close_spool(keep=True)
                raise
            self._close_spool(keep=False)
        if refused is not None:
            raise refused

    def hold_run(self) -> None:
        """Make the spool now, so that other processes see that the owner of a run lives."""
        with self._lock:
            self.check_open()
            self._start_spool()

    def _start_spool(self) -> None:
        if self._spool is None and self._spool_folder is not None:
            try:
                self._spool = Spool(self._spool_folder, self.owner)
            except OSError as error:
                raise StoreUnwritable(str(self._spool_folder), error.strerror or str(error)) from error

    def _close_spool(self, *, keep: bool) -> None:
        if self._spool is not None:
            self._spool.close(keep=keep)
            self._spool = None

    def _pending_keys(self) -> set[ArtifactKey]:
        """Return the keys of what is pending, looking at each record once; most calls never ask."""
        records, count = self._looked_at
        if records is not self._records:
            self._keys, count = set(), 0
        self._keys.update(record.key for record in self._records[count:])
        self._looked_at = (self._records, len(self._records))
        return self._keys

    def _refuse_taken(self, records: Sequence[Record]) -> None:
        keys = [record.key for record in records]
        pending = self._pending_keys()
        taken = [key for key in keys if key in pending] or sorted(self.store.stored(keys))
        if taken or len(set(keys)) < len(keys):
            error = DuplicateKey([key.text for key in taken or keys])
            self.duplicates += len(error.keys)
            logger.error("%s", error)
            raise error

    def _refuse_sealed(self, run: ArtifactKey) -> None:
        if run in self._open_runs:
            return
        with self.store.read() as reader:
            row = reader.find_run(run)
        if row is not None and row.status != "running":
            error = RunSealed(run.text, row.status)
            logger.error("%s", error)
            raise error
        self._open_runs.add(run)

    @staticmethod
    def _look_at_order(record: Record) -> None:
        parent = record.key.parent
        if parent is not None and record.key.time_ms < parent.time_ms:
            logger.warning("%s is older than its parent; accepted, its key never changes", record.key)

    def _notify(self, records: Sequence[Record]) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(records)
            except Exception:
                logger.exception("a listener failed; recording goes on")

    def _leave_to_parent(self) -> None:
        self._lock = threading.RLock()  # some thread of the parent may hold the old one
        self._spool = None
        self._refusal = StoreClosed(self.store.location, "this process was forked from the one that opened it")


def _size(records: Sequence[Record]) -> int:
    return sum(len(record.content) for record in records)


def _leave_all_to_parent() -> None:
    for recorder in list(_open_recorders):
        recorder._leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)
