"""The embedded store: one SQLite file, one writing connection a process, one synced transaction an append."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sapwood.core.keys import ArtifactKey
from sapwood.core.record import Record
from sapwood.core.template import TemplateId, TemplateVersion
from sapwood.errors import (
    StoreClosed,
    StoreDamaged,
    StoreUnwritable,
    SyncFailed,
)
from sapwood.ports import Claim, Reader, RunEnd, RunStart
from sapwood.storage import sqlite_file
from sapwood.storage.migrate import check_sqlite, load_migrations, migrate_sqlite
from sapwood.storage.sqlite_checkpoint import Checkpoints
from sapwood.storage.sqlite_file import (
    change_journal,
    choose_journal,
    connect,
    is_read_only,
    journal_of,
    real_path,
    set_sync,
    typed_errors,
)
from sapwood.storage.sqlite_log import WriteAheadLog
from sapwood.storage.sqlite_reader import SqliteReader
from sapwood.storage.sqlite_writer import SqliteWriter
from sapwood.storage.templates import version_record

IDLE_READERS: Final = 4
FORK_WAIT_S: Final = 5.0  # for threads that read
LARGE_BYTES: Final = 1024 * 1024  # a content that would fill the cache with itself

logger = logging.getLogger("sapwood.storage")
_open_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
_held_for_fork: list[SqliteStore] = []
_left_to_the_parent: list[Any] = []  # connections of a forked child that cannot be closed in it
_unusable_after_fork: set[Path] = set()


class SqliteStore:
    """A store in one file; usable from every thread, not across a fork."""

    def __init__(self, path: str | Path, *, create: bool = True, sqlite_version: tuple[int, ...] | None = None) -> None:
        self._path = real_path(path)
        if self._path in _unusable_after_fork:
            raise StoreClosed(self.location, "this process was forked while another thread read it; start a new one")
        self._lock = threading.RLock()
        self._is_quiet = threading.Condition(self._lock)
        self._inside: Counter[int] = Counter()  # threads that use SQLite without holding the lock
        self._idle_readers: list[Any] = []
        self._checkpoints = Checkpoints(self._path, self._inside_sqlite)
        self._journal = ""
        self._log: WriteAheadLog | None = None
        self._refusal: Exception | None = None
        self._version = sqlite_version or sqlite_file.sqlite_version()
        self._read_only = is_read_only(self._path)
        self._writer = self._connect(create and not self._read_only)
        _open_stores.add(self)

    @property
    def location(self) -> str:
        return str(self._path)

    @property
    def journal(self) -> str:
        """`wal`, or `delete` where this SQLite cannot be trusted with a log."""
        return self._journal

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(
        self,
        records: Sequence[Record],
        *,
        starts: Sequence[RunStart] = (),
        claims: Sequence[Claim] = (),
        end: RunEnd | None = None,
    ) -> None:
        with self._writing() as writer:
            writer.insert(records, starts, claims)
            if end is not None:
                writer.end_run(end, records)
            if not records:
                writer.touch()
        if any(len(record.content) > LARGE_BYTES for record in records):
            self._empty_cache()

    def stored(self, keys: Iterable[ArtifactKey]) -> set[ArtifactKey]:
        with self._looking() as writer:
            return writer.stored(keys)

    def next_workflow_run_id(self) -> int:
        with self._writing() as writer:
            return writer.next_workflow_run_id()

    def reserve_ids(self, run: ArtifactKey, nodes: int, artifacts: int) -> tuple[int, int]:
        with self._writing() as writer:
            return writer.reserve_ids(run, nodes, artifacts)

    def change_owner(self, run: ArtifactKey, old: str, new: str) -> bool:
        with self._writing() as writer:
            return writer.change_owner(run, old, new)

    def find_version(self, template_id: TemplateId, content_hash: str) -> TemplateVersion | None:
        with self._looking() as writer:
            return writer.find_version(template_id, content_hash)

    def known_hashes(self, template_ids: Iterable[TemplateId]) -> set[tuple[str, str]]:
        with self._looking() as writer:
            return writer.known_hashes(template_ids)

    def add_version(self, version: TemplateVersion) -> TemplateVersion:
        with self._writing() as writer:  # looked up under the write lock, so that no two processes both add it
            found = writer.find_version(version.template_id, version.content_hash)
            if found is None:
                writer.insert([version_record(version)])
        return found or version

    def list_versions(self, prefix: str = "tpl") -> Sequence[TemplateVersion]:
        with self._looking() as writer:
            return writer.list_versions(prefix)

    @contextmanager
    def _looking(self) -> Iterator[SqliteWriter]:
        """Hold the writing connection to look something up in it."""
        with self._lock, typed_errors(self.location):
            self._check_usable()
            yield SqliteWriter(self._writer, self.location)

    @contextmanager
    def _writing(self) -> Iterator[SqliteWriter]:
        """Hold the write lock for one transaction; it is synced when the block has been left."""
        with self._lock:
            self._check_usable()
            if self._read_only:
                raise StoreUnwritable(self.location, "the file or its folder is read-only")
            try:
                with typed_errors(self.location):
                    execute = self._writer.execute
                    try:
                        if self._writer.in_transaction:  # Ctrl-C came between an error and its rollback
                            execute("rollback")
                        execute("begin immediate")
                        if self._log is not None:
                            self._log.make_room()
                        yield SqliteWriter(self._writer, self.location)
                        execute("commit")
                    except BaseException:
                        if self._writer.in_transaction:
                            self._writer.execute("rollback")
                        raise
            except SyncFailed:
                self._reopen()
                raise
            self._after_commit()

    # -- keeping the file in order ------------------------------------------------------------------------------------

    def _connect(self, create: bool) -> Any:
        writer = connect(self._path, create=create, read_only=self._read_only)
        try:
            with typed_errors(self.location):
                return self._prepared(writer)
        except BaseException:
            writer.close()
            raise

    def _prepared(self, writer: Any) -> Any:
        """Return a connection to a store of the current version, with the right journal, that waits for the disk."""
        migrations = load_migrations("sqlite")
        check_sqlite(writer, self._path, migrations)  # before anything in a foreign file is changed
        self._journal = journal_of(writer)
        if self._read_only:
            return writer
        if self._journal != choose_journal(self._version):
            change_journal(writer, choose_journal(self._version))
            writer.close()
            writer = connect(self._path)
            check_sqlite(writer, self._path, migrations)
            self._journal = journal_of(writer)
            if self._journal != choose_journal(self._version):
                raise StoreUnwritable(self.location, "its journal cannot be changed")
        set_sync(writer, self._journal)
        migrate_sqlite(writer, self._path, migrations)
        if self._journal == "wal":
            self._watch_log(writer)
        return writer

    def _watch_log(self, writer: Any) -> None:
        if self._log is not None:
            self._log.close()
        self._log = log = WriteAheadLog(self._path, writer.execute("pragma page_size").fetchone()[0])

        def note_pages(_connection: Any, _name: str, pages: int) -> int:
            log.pages = pages
            return 0

        writer.set_wal_hook(note_pages)

    def _after_commit(self) -> None:
        """Make sure that the log we wrote is the one other processes see, and keep it short."""
        if self._log is None:
            return
        try:
            self._log.check(self.location)
        except StoreDamaged as error:
            self._refusal = error
            raise
        self._checkpoints.after_commit(self._writer, self._log.pages)

    def _reopen(self) -> None:
        """After a failed sync: never sync the same pages again; read back what the file holds, and write it anew."""
        try:
            self._writer.close()
            self._close_readers()
            self._writer = self._connect(create=False)
            with typed_errors(self.location):
                found = self._writer.execute("pragma quick_check(1)").fetchone()[0]
                if found != "ok":
                    raise StoreDamaged(self.location, found)
                self._writer.execute("pragma wal_checkpoint(truncate)")
        except Exception as error:
            self._refusal = error
            logger.critical("store %s stopped: %s", self.location, error)

    def _empty_cache(self) -> None:
        """Let go of pages that nobody will ask for. The commit before it stands, also if the store was closed since."""
        with self._lock, typed_errors(self.location):
            if self._refusal is None:
                self._writer.execute("pragma shrink_memory")

    def _check_usable(self) -> None:
        if self._refusal is not None:
            raise self._refusal

    # -- reading ------------------------------------------------------------------------------------------------------

    @contextmanager
    def read(self) -> Iterator[Reader]:
        with self._inside_sqlite():
            connection = self._take_reader()
            try:
                with typed_errors(self.location):
                    connection.execute("begin")
                    connection.execute("select count from mark").fetchone()  # the moment of the snapshot
                try:
                    yield SqliteReader(connection, self.location)
                finally:
                    with typed_errors(self.location):
                        if connection.in_transaction:  # a disk that failed has ended it already
                            connection.execute("rollback")
            except BaseException:
                connection.close()  # a cursor of a generator may still hold it
                raise
            with self._lock:
                if self._refusal is None and len(self._idle_readers) < IDLE_READERS:
                    self._idle_readers.append(connection)
                    return
            connection.close()

    def _take_reader(self) -> Any:
        with self._lock:
            self._check_usable()
            if self._idle_readers:
                return self._idle_readers.pop()
        with typed_errors(self.location):
            connection = connect(self._path, read_only=self._read_only)
            connection.execute("pragma query_only = 1")
            return connection

    def close(self) -> None:
        with self._lock:
            if isinstance(self._refusal, StoreClosed):
                return
            self._refusal = StoreClosed(self.location)
        self._checkpoints.wait()
        with self._lock:
            self._close_readers()
            with typed_errors(self.location):
                self._writer.close()
            if self._log is not None:
                self._log.close()

    def _close_readers(self) -> None:
        while self._idle_readers:
            self._idle_readers.pop().close()

    # -- forks --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _inside_sqlite(self) -> Iterator[None]:
        """Count this thread among those a fork has to wait for."""
        thread = threading.get_ident()
        with self._lock:
            self._inside[thread] += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= Counter({thread: 1})
                self._is_quiet.notify_all()

    def _hold(self) -> None:
        """Keep every other thread out of SQLite: a child would inherit its locks, and nobody who gives them back."""
        self._lock.acquire()
        me = {threading.get_ident()}
        self._is_quiet.wait_for(lambda: self._inside.keys() <= me, FORK_WAIT_S)

    def _leave_to_parent(self) -> None:
        """In a forked child: let go of everything. What was closed here can be opened anew, with locks of its own."""
        was_closed = isinstance(self._refusal, StoreClosed)
        self._refusal = StoreClosed(self.location, "this process was forked from the one that opened it")
        connections, inside = [self._writer, *self._idle_readers], self._inside
        self._lock = threading.RLock()
        self._is_quiet = threading.Condition(self._lock)
        self._inside, self._idle_readers = Counter(), []
        self._checkpoints.leave_to_parent()
        if was_closed:
            return
        if inside or self._writer.in_transaction:
            _left_to_the_parent.extend(connections)
            _unusable_after_fork.add(self._path)
            return
        for connection in connections:
            connection.close()  # the parent's locks are the parent's: this touches none of them


def _hold_all() -> None:
    _held_for_fork[:] = _open_stores
    for store in _held_for_fork:
        store._hold()


def _release_all() -> None:
    while _held_for_fork:
        _held_for_fork.pop()._lock.release()


def _leave_all_to_parent() -> None:
    while _held_for_fork:
        _held_for_fork.pop()._leave_to_parent()


os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_leave_all_to_parent)
