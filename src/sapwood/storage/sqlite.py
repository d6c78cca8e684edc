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

from sapwood.core.keys import SEGMENT_BYTES, ArtifactKey
from sapwood.core.record import Record
from sapwood.core.template import TemplateId, TemplateVersion
from sapwood.errors import (
    DuplicateClaim,
    DuplicateKey,
    RunChanged,
    RunSealed,
    StoreClosed,
    StoreDamaged,
    StoreUnwritable,
    SyncFailed,
)
from sapwood.ports import Claim, Reader, RunEnd, RunStart
from sapwood.storage import sqlite_file
from sapwood.storage.migrate import check_sqlite, load_migrations, migrate_sqlite
from sapwood.storage.rows import (
    INLINE_BYTES,
    claim_crc,
    compress,
    end_of_subtree,
    is_chunked,
    row_crc,
    run_crc,
    split,
    to_row,
)
from sapwood.storage.sqlite_damage import RUN_ROW
from sapwood.storage.sqlite_file import change_journal, choose_journal, connect, journal_of, set_sync, typed_errors
from sapwood.storage.sqlite_log import WriteAheadLog
from sapwood.storage.sqlite_reader import COUNT, SqliteReader
from sapwood.storage.templates import template_id_of, to_version, version_record

CHECKPOINT_PAGES: Final = 4096  # 32 MB of log, then a passive checkpoint beside the commits
IDLE_READERS: Final = 4
FORK_WAIT_S: Final = 5.0  # for threads that read
LARGE_BYTES: Final = 1024 * 1024  # a content that would fill the cache with itself

INSERT = "insert into artifact (key, kind, hash, metadata, content, chunks, crc) values (?, ?, ?, ?, ?, ?, ?)"
INSERT_CHUNK = "insert into chunk (hash, data) select ?1, ?2 where not exists (select 1 from chunk where hash = ?1)"
INSERT_CLAIM = "insert into claim (run, node, attempt, delivery, role, key, crc) values (?, ?, ?, ?, ?, ?, ?)"
INSERT_TEMPLATE = "insert into template (template_id, hash, key) values (?, ?, ?)"
INSERT_RUN = (
    "insert into run (key, workflow_run_id, status, started_ms, ended_ms, head, owner, node_ids, artifact_ids, crc) "
    "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
CHANGE_RUN = (
    "update run set status = ?3, ended_ms = ?5, head = ?6, owner = ?7, node_ids = ?8, artifact_ids = ?9, crc = ?10 "
    "where key = ?1"
)
STATUS = "select status from run where key = ?"
MARK = "update mark set count = count + 1"
NEXT_RUN_ID = "update counter set last = last + 1 where name = 'workflow_run_id' returning last"
IS_STORED = "select 1 from artifact where key = ?"
IS_CLAIMED = "select 1 from claim where run = ? and node = ? and attempt = ? and delivery = ? and role = ?"
VERSION_KEY = "select key from template where template_id = ? and hash = ?"
HASHES = "select hash from template where template_id = ?"
FAMILY = (
    "select key from template where template_id = ?1 or (template_id >= ?1 || '.' and template_id < ?1 || '/') "
    "order by template_id, key"
)

logger = logging.getLogger("sapwood.storage")
_open_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
_held_for_fork: list[SqliteStore] = []
_left_to_the_parent: list[Any] = []  # connections of a forked child that cannot be closed in it
_unusable_after_fork: set[Path] = set()


class SqliteStore:
    """A store in one file; usable from every thread, not across a fork."""

    def __init__(self, path: str | Path, *, create: bool = True, sqlite_version: tuple[int, ...] | None = None) -> None:
        self._path = Path(os.path.realpath(path))
        if self._path in _unusable_after_fork:
            raise StoreClosed(self.location, "this process was forked while another thread read it; start a new one")
        self._lock = threading.RLock()
        self._is_quiet = threading.Condition(self._lock)
        self._inside: Counter[int] = Counter()  # threads that use SQLite without holding the lock
        self._idle_readers: list[Any] = []
        self._checkpoint: threading.Thread | None = None
        self._journal = ""
        self._log: WriteAheadLog | None = None
        self._refusal: Exception | None = None
        self._version = sqlite_version or sqlite_file.sqlite_version()
        self._read_only = self._path.exists() and not os.access(self._path, os.W_OK)
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
        with self._writing() as execute:
            self._insert(execute, records, starts, claims)
            if end is not None:
                self._end_run(execute, end, records)
            if not records:
                execute(MARK)
        if any(len(record.content) > LARGE_BYTES for record in records):
            with self._lock, typed_errors(self.location):
                self._writer.execute("pragma shrink_memory")  # the cache is full of pages nobody will ask for

    def stored(self, keys: Iterable[ArtifactKey]) -> set[ArtifactKey]:
        with self._lock, typed_errors(self.location):
            self._check_usable()
            return {key for key in keys if self._writer.execute(IS_STORED, (key.pack(),)).fetchone()}

    def next_workflow_run_id(self) -> int:
        with self._writing() as execute:
            return int(execute(NEXT_RUN_ID).fetchone()[0])

    def reserve_ids(self, run: ArtifactKey, nodes: int, artifacts: int) -> tuple[int, int]:
        with self._writing() as execute:
            self._refuse_sealed({run.pack()})
            row = execute(RUN_ROW, (run.pack(),)).fetchone()
            execute(CHANGE_RUN, _with_crc(*row[:7], row[7] + nodes, row[8] + artifacts))
            return row[7] + 1, row[8] + 1

    def change_owner(self, run: ArtifactKey, old: str, new: str) -> bool:
        with self._writing() as execute:
            row = execute(RUN_ROW, (run.pack(),)).fetchone()
            if row is None or row[2] != "running" or row[6] != old:
                return False
            execute(CHANGE_RUN, _with_crc(*row[:6], new, *row[7:9]))
            return True

    def _insert(
        self, execute: Any, records: Sequence[Record], starts: Sequence[RunStart] = (), claims: Sequence[Claim] = ()
    ) -> None:
        rows = self._insert_chunks(execute, records)
        roots = {row[0][:SEGMENT_BYTES] for row in rows}
        self._refuse_sealed(roots.union(claim.run.pack() for claim in claims) if claims else roots)
        try:
            for start in starts:
                key, number, started_ms, owner, *ids = start
                execute(INSERT_RUN, _with_crc(key.pack(), number, "running", started_ms, None, None, owner, *ids))
            self._writer.executemany(INSERT, rows)
            for record in records:
                if record.kind == "PromptTemplate":
                    digest = bytes.fromhex(record.content_hash)
                    execute(INSERT_TEMPLATE, (template_id_of(record), digest, record.key.pack()))
            for claim in claims:
                execute(INSERT_CLAIM, (claim.run.pack(), *claim[1:5], claim.key.pack(), claim_crc(claim)))
        except _constraint():
            self._refuse_duplicates(records, claims)
            raise

    def _insert_chunks(self, execute: Any, records: Sequence[Record]) -> list[Any]:
        """Return the rows of the records; the contents of the large ones are stored first, each chunk once."""
        if max((len(record[2]) for record in records), default=0) < INLINE_BYTES:
            return [to_row(record) for record in records]
        rows = []
        for record in records:
            row = to_row(record)
            if is_chunked(record):
                digests = []
                for digest, part in split(record.content):
                    digests.append(digest)
                    if not execute("select 1 from chunk where hash = ?", (digest,)).fetchone():
                        execute(INSERT_CHUNK, (digest, compress(part)))
                chunks = b"".join(digests)
                row = (*row[:4], None, chunks, row_crc(*row[:4], chunks))
            rows.append(row)
        return rows

    def _refuse_sealed(self, roots: Iterable[bytes]) -> None:
        for root in roots:
            row = self._writer.execute(STATUS, (root,)).fetchone()
            if row is not None and row[0] != "running":
                raise RunSealed(ArtifactKey.unpack(root).text, row[0])

    def _refuse_duplicates(self, records: Sequence[Record], claims: Sequence[Claim]) -> None:
        """Find out, before the transaction is undone, what the database refused; say which."""
        self._writer.execute("rollback")
        seen: set[ArtifactKey] = set()
        twice = [record.key for record in records if record.key in seen or seen.add(record.key)]  # type: ignore[func-returns-value]  # add gives None
        stored = self.stored(record.key for record in records)
        if stored or twice:
            raise DuplicateKey([key.text for key in sorted(stored.union(twice))])
        for claim in claims:
            if self._writer.execute(IS_CLAIMED, (claim.run.pack(), *claim[1:5])).fetchone():
                raise DuplicateClaim(f"{claim.run} {claim.node} {claim.attempt}.{claim.delivery} {claim.role}")

    def _end_run(self, execute: Any, end: RunEnd, records: Sequence[Record]) -> None:
        key = end.key.pack()
        found = execute(COUNT, (key, end_of_subtree(key))).fetchone()[0] - len(records)
        if found != end.judged:
            raise RunChanged(end.key.text, end.judged, found)
        row = execute(RUN_ROW, (key,)).fetchone()
        ended = (end.status, row[3], end.ended_ms, bytes.fromhex(end.head))
        execute(CHANGE_RUN, _with_crc(*row[:2], *ended, *row[6:9]))

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        """Hold the write lock for one transaction; it is synced when the block has been left."""
        with self._lock:
            self._check_usable()
            if self._read_only:
                raise StoreUnwritable(self.location, "the file is read-only")
            try:
                with typed_errors(self.location):
                    execute = self._writer.execute
                    try:
                        if self._writer.in_transaction:  # Ctrl-C came between an error and its rollback
                            execute("rollback")
                        execute("begin immediate")
                        if self._log is not None:
                            self._log.make_room()
                        yield execute
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
        if self._log.pages >= CHECKPOINT_PAGES and not (self._checkpoint and self._checkpoint.is_alive()):
            self._start_checkpoint()

    def _start_checkpoint(self) -> None:
        """Start the thread that shortens the log. The commit before it has happened: nothing here may say otherwise."""
        self._checkpoint = threading.Thread(target=self._run_checkpoint, name="sapwood-checkpoint", daemon=True)
        try:
            self._checkpoint.start()
        except RuntimeError as error:  # the system gives out no more threads
            logger.warning("no checkpoint of %s now: %s; the log stays and is tried again", self.location, error)

    def _run_checkpoint(self) -> None:
        """Move the log into the file without holding up writers; what it cannot move now, the next one does."""
        try:
            with self._inside_sqlite(), typed_errors(self.location):
                connection = connect(self._path)
                set_sync(connection, self._journal)
                connection.execute("pragma wal_checkpoint(passive)")
                connection.close()
        except Exception:
            logger.exception("checkpoint of %s failed; the log stays and is tried again", self.location)

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

    def _check_usable(self) -> None:
        if self._refusal is not None:
            raise self._refusal

    # -- reading ------------------------------------------------------------------------------------------------------

    @contextmanager
    def read(self) -> Iterator[Reader]:
        with self._inside_sqlite(), typed_errors(self.location):
            connection = self._take_reader()
            try:
                connection.execute("begin")
                connection.execute("select count from mark").fetchone()  # the moment of the snapshot
                try:
                    yield SqliteReader(connection, self.location)
                finally:
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
        connection = connect(self._path, read_only=self._read_only)
        connection.execute("pragma query_only = 1")
        return connection

    def close(self) -> None:
        with self._lock:
            if isinstance(self._refusal, StoreClosed):
                return
            self._refusal = StoreClosed(self.location)
        if self._checkpoint is not None and self._checkpoint.is_alive():
            self._checkpoint.join()
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
        self._inside, self._idle_readers, self._checkpoint = Counter(), [], None
        if was_closed:
            return
        if inside or self._writer.in_transaction:
            _left_to_the_parent.extend(connections)
            _unusable_after_fork.add(self._path)
            return
        for connection in connections:
            connection.close()  # the parent's locks are the parent's: this touches none of them

    # -- templates ----------------------------------------------------------------------------------------------------

    def find_version(self, template_id: TemplateId, content_hash: str) -> TemplateVersion | None:
        with self._lock, typed_errors(self.location):
            self._check_usable()
            row = self._writer.execute(VERSION_KEY, (template_id.text, bytes.fromhex(content_hash))).fetchone()
            return None if row is None else self._version_at(row[0])

    def known_hashes(self, template_ids: Iterable[TemplateId]) -> set[tuple[str, str]]:
        with self._lock, typed_errors(self.location):
            self._check_usable()
            return {
                (template_id.text, digest.hex())
                for template_id in template_ids
                for (digest,) in self._writer.execute(HASHES, (template_id.text,))
            }

    def add_version(self, version: TemplateVersion) -> TemplateVersion:
        with self._writing() as execute:  # looked up under the write lock, so that no two processes both add it
            row = execute(VERSION_KEY, (version.template_id.text, bytes.fromhex(version.content_hash))).fetchone()
            if row is not None:
                return self._version_at(row[0])
            self._insert(execute, [version_record(version)])
        return version

    def list_versions(self, prefix: str = "tpl") -> Sequence[TemplateVersion]:
        with self._lock, typed_errors(self.location):
            self._check_usable()
            keys = [key for (key,) in self._writer.execute(FAMILY, (prefix.rstrip("."),))]
            return [self._version_at(key) for key in keys]

    def _version_at(self, packed: bytes) -> TemplateVersion:
        record = SqliteReader(self._writer, self.location).find(ArtifactKey.unpack(packed))
        if record is None:
            raise StoreDamaged(self.location, f"template {ArtifactKey.unpack(packed)} has lost its text")
        return to_version(record)


def _with_crc(*columns: Any) -> tuple[Any, ...]:
    return *columns, run_crc(*columns)


def _constraint() -> type[Exception]:
    import apsw

    constraint: type[Exception] = apsw.ConstraintError
    return constraint


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
