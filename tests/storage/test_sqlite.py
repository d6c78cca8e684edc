"""The SQLite store keeps the contract, and what only a file can promise."""

from __future__ import annotations

import errno
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from sapwood import ArtifactKey, KeyFactory
from sapwood.errors import NotFound, SapwoodError, StoreClosed, StoreDamaged, StoreUnwritable, SyncFailed, WrongStore
from sapwood.ports import ArtifactStore, Claim
from sapwood.storage import sqlite as sqlite_module
from sapwood.storage import sqlite_checkpoint
from sapwood.storage.migrate import check_sqlite, load_migrations, migrate_sqlite
from sapwood.storage.sqlite import SqliteStore
from sapwood.storage.sqlite_file import has_wal_reset_bug
from sapwood.storage.sqlite_reader import SqliteReader
from tests.conftest import Dose
from tests.storage.contract import KEYS, StoreContract, record, start_run, version


class SqliteContract(StoreContract):
    sqlite_version: tuple[int, ...] | None = None

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Iterator[Callable[[], ArtifactStore]]:
        opened: list[SqliteStore] = []

        def open_it() -> ArtifactStore:
            opened.append(SqliteStore(tmp_path / "s.db", sqlite_version=self.sqlite_version))
            return opened[-1]

        yield open_it
        for store in opened:
            store.close()


class TestSqliteWithLog(SqliteContract):
    """WAL, as with every SQLite that is safe with it."""


class TestSqliteWithoutLog(SqliteContract):
    """The rollback journal, as with a SQLite that has the WAL-reset bug."""

    sqlite_version = (3, 40, 1)

    def test_a_reader_sees_one_moment(self, store: ArtifactStore) -> None:
        """Without a log a commit waits for the readers, so the commit here comes from another thread."""
        root = start_run(store)
        commit = threading.Thread(target=store.append, args=([record(KEYS.child(root))],))
        with store.read() as reader:
            assert reader.count(root) == 1
            commit.start()
            commit.join(0.2)
            assert reader.count(root) == 1
        commit.join()
        with store.read() as reader:
            assert reader.count(root) == 2


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "s.db")
    yield store
    store.close()


def sql(path: Path, text: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    try:
        return list(connection.execute(text))
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("version", "has_bug"),
    [((3, 40, 1), True), ((3, 44, 6), False), ((3, 50, 6), True), ((3, 50, 7), False), ((3, 51, 2), True), ((3, 51, 3), False), ((3, 54, 1), False)],
)  # fmt: skip
def test_the_versions_with_the_wal_reset_bug_are_known(version: tuple[int, ...], has_bug: bool) -> None:
    assert has_wal_reset_bug(version) is has_bug


def test_the_journal_follows_the_version(tmp_path: Path) -> None:
    for number, journal in (((3, 54, 1), "wal"), ((3, 40, 1), "delete"), ((3, 54, 1), "wal")):
        store = SqliteStore(tmp_path / "s.db", sqlite_version=number)
        store.append([])
        assert store.journal == journal
        store.close()


def test_the_files_are_for_their_owner_only_and_the_page_size_is_8_kib(store: SqliteStore, tmp_path: Path) -> None:
    store.append([record(KEYS.root())])
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "s.db": 0o600, "s.db-wal": 0o600, "s.db-shm": 0o600,
    }  # fmt: skip
    assert sql(tmp_path / "s.db", "pragma page_size") == [(8192,)]


def test_a_commit_stands_and_the_log_stays_short_when_there_is_no_thread_for_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(sqlite_checkpoint, "CHECKPOINT_PAGES", 20)
    store = SqliteStore(tmp_path / "s.db")
    with monkeypatch.context() as busy:
        busy.setattr(threading.Thread, "start", refuse)
        root = start_run(store)
        children = [KEYS.child(root) for _ in range(100)]
        for child in children:
            store.append([record(child, b"x" * 5000)])
    assert store.stored(children) == set(children)
    assert (tmp_path / "s.db-wal").stat().st_size < 100 * 8192
    store.close()


def test_a_checkpoint_that_fails_is_logged_and_the_commit_before_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_connection: object) -> None:
        raise apsw.IOError("disk I/O error")

    monkeypatch.setattr(sqlite_checkpoint, "CHECKPOINT_PAGES", 1)
    store = SqliteStore(tmp_path / "s.db")
    with monkeypatch.context() as failing:
        failing.setattr(sqlite_checkpoint, "_move_log", fail)
        root = start_run(store)
        children = [KEYS.child(root) for _ in range(4)]
        for child in children:
            store.append([record(child)])
            store._checkpoints.wait()
    assert caplog.text.count("its log stays") > 2
    assert store.stored(children) == set(children)
    store.close()


def test_every_commit_waits_for_the_disk_and_runs_no_checkpoint(store: SqliteStore) -> None:
    pragmas = [store._writer.execute(f"pragma {name}").fetchone()[0] for name in ("synchronous", "wal_autocheckpoint")]
    assert pragmas == [2, 0]


def test_an_append_without_records_still_changes_a_row_so_that_sqlite_syncs(store: SqliteStore) -> None:
    before = store._writer.total_changes()
    store.append([])
    assert store._writer.total_changes() == before + 1


TAMPERING = [
    "update {0} set {1} = {1}",
    "delete from {0}",
    "insert or replace into {0} select * from {0}",
    "insert or ignore into {0} select * from {0}",
    "replace into {0} select * from {0}",
]


@pytest.mark.parametrize("table", ["artifact key", "chunk hash", "claim role", "template hash"])
@pytest.mark.parametrize("statement", TAMPERING)
def test_plain_sql_cannot_change_a_source_row(store: SqliteStore, tmp_path: Path, table: str, statement: str) -> None:
    root = start_run(store)
    store.append([record(KEYS.child(root), os.urandom(50_000))], claims=[Claim(root, "n", 1, 1, "r", root)])
    store.add_version(version("tpl.a.b", "text"))
    with pytest.raises(apsw.ConstraintError):
        sql(tmp_path / "s.db", statement.format(*table.split()))


@pytest.mark.mutant
def test_without_the_guard_an_insert_or_replace_would_slip_past_the_other_triggers(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    store.append([record(KEYS.root(), b"1")])
    sql(tmp_path / "s.db", "drop trigger artifact_once")
    sql(
        tmp_path / "s.db",
        "insert or replace into artifact select id, key, kind, hash, metadata, x'32', chunks, crc from artifact",
    )
    with store.read() as reader:
        assert [found.content for found in reader.load()] == [b"2"]
    store.close()


@pytest.mark.parametrize(
    "decay",
    [
        "update artifact set kind = 'Node'",
        "update artifact set metadata = x'7b207d'",
        "update artifact set hash = zeroblob(32)",
        "update artifact set key = zeroblob(16)",
        "update artifact set chunks = zeroblob(32)",
        "update claim set node = 'picl'",
        "update claim set key = zeroblob(16)",
    ],
)
def test_a_row_that_decayed_is_named_even_in_a_run_without_a_seal(tmp_path: Path, decay: str) -> None:
    store = SqliteStore(tmp_path / "s.db")
    root = start_run(store)
    store.append([record(KEYS.child(root), b"1")], claims=[Claim(root, "pick", 1, 1, "Report", root)])
    with store.read() as reader:
        assert list(reader.damaged()) == []
    table = decay.split()[1]
    only_one = f" where id = (select max(id) from {table})" if table == "artifact" else ""
    sql(tmp_path / "s.db", f"drop trigger {table}_stays; {decay}{only_one}")
    with store.read() as reader:
        found = list(reader.damaged())
    assert found[0] == f"trigger {table}_stays was removed or changed"
    assert len(found) == 2
    store.close()


def test_large_contents_that_repeat_are_stored_once(store: SqliteStore, tmp_path: Path) -> None:
    body = random.Random(1).randbytes(400_000)  # where a chunk ends depends on its bytes
    root = KEYS.root()
    for number in range(10):
        store.append([record(KEYS.child(root), b"turn %d " % number + body, kind="RenderedPrompt")])
    stored = sql(tmp_path / "s.db", "select sum(length(data)) from chunk")[0][0]
    assert isinstance(stored, int)
    assert stored < 2 * len(body)


def test_a_report_of_any_size_stands_whole_in_the_view(store: SqliteStore, tmp_path: Path) -> None:
    key = KeyFactory(clock=lambda: 1_700_000_000_123).root()
    metadata = b'{"artifact_id":7,"content_type":"markdown","media":"text","run_node_id":3}'
    text = "é" * 40_000
    store.append([record(key, text.encode(), kind="Report", metadata=metadata), record(KEYS.root(), kind="Input")])
    connection = sqlite3.connect(tmp_path / "s.db")
    rows = connection.execute(
        "select id, run_node_id, artifact_type, content_type, content, metadata, created_at from phase_artifacts"
    ).fetchall()
    assert rows == [(7, 3, "report", "markdown", text, metadata.decode(), "2023-11-14T22:13:20.123Z")]
    with pytest.raises(sqlite3.OperationalError):
        connection.execute("delete from phase_artifacts")
    connection.close()


def test_a_foreign_file_is_refused_untouched(tmp_path: Path) -> None:
    sql(tmp_path / "theirs.db", "create table t (a)")
    before = (tmp_path / "theirs.db").read_bytes()
    with pytest.raises(WrongStore, match="another program"):
        SqliteStore(tmp_path / "theirs.db")
    assert (tmp_path / "theirs.db").read_bytes() == before
    (tmp_path / "noise.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(WrongStore, match="no SQLite database"):
        SqliteStore(tmp_path / "noise.db")


def test_a_store_that_another_process_is_making_is_no_foreign_file(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    looking, making = apsw.Connection(str(path)), apsw.Connection(str(path))
    looking.execute("pragma journal_mode = wal")

    def made_meanwhile(_cursor: object, statement: str, _bindings: object) -> bool:
        if "sqlite_schema" in statement:
            migrate_sqlite(making, path, load_migrations("sqlite"))
        return True

    looking.exec_trace = made_meanwhile
    assert check_sqlite(looking, path, load_migrations("sqlite")) == 0
    looking.exec_trace = None
    assert check_sqlite(looking, path, load_migrations("sqlite")) > 0
    looking.close()
    making.close()


def test_a_newer_store_is_refused_with_a_message(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "s.db").close()
    sql(tmp_path / "s.db", "pragma user_version = 99")
    with pytest.raises(WrongStore, match=r"schema version 99.*upgrade"):
        SqliteStore(tmp_path / "s.db")


def test_an_older_store_is_copied_and_upgraded_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "s.db")
    root = start_run(store)
    store.close()
    newer = [*load_migrations("sqlite"), "create table added (a) strict; ".replace("(a)", "(a integer)")]
    monkeypatch.setattr(sqlite_module, "load_migrations", lambda _backend: newer)
    store = SqliteStore(tmp_path / "s.db")
    with store.read() as reader:
        assert reader.count(root) == 1
    store.close()
    assert sql(tmp_path / "s.db", "pragma user_version") == [(2,)]
    assert sql(tmp_path / "s.db.v1.bak", "pragma user_version") == [(1,)]
    assert (tmp_path / "s.db.v1.bak").stat().st_mode & 0o777 == 0o600


def test_the_copy_before_an_upgrade_has_its_name_only_when_it_is_whole_and_synced_and_is_never_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteStore(tmp_path / "s.db").close()
    copy = tmp_path / "s.db.v1.bak"
    synced: list[tuple[bool, int, bool]] = []
    fsync = os.fsync

    def watched(fd: int) -> None:
        about = os.fstat(fd)
        synced.append((stat.S_ISDIR(about.st_mode), about.st_mode & 0o077, copy.exists()))
        fsync(fd)

    def looked_at(_cursor: object, statement: str, _bindings: object) -> bool:
        if "vacuum" in statement:
            assert not copy.exists()
            assert [path.stat().st_mode & 0o777 for path in tmp_path.glob("s.db.v1.bak*")] == [0o600]
        return True

    monkeypatch.setattr(os, "fsync", watched)
    connection = apsw.Connection(str(tmp_path / "s.db"))
    connection.exec_trace = looked_at
    migrate_sqlite(connection, tmp_path / "s.db", [*load_migrations("sqlite"), "create table added (a)"])
    connection.close()
    assert synced == [(False, 0, False), (True, synced[1][1], True)]
    assert sql(copy, "pragma user_version") == [(1,)]
    assert [path.name for path in tmp_path.glob("s.db.v1.bak*")] == ["s.db.v1.bak"]


def test_a_copy_that_cannot_be_made_is_a_typed_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteStore(tmp_path / "s.db").close()
    newer = [*load_migrations("sqlite"), "create table added (a)"]
    monkeypatch.setattr(sqlite_module, "load_migrations", lambda _backend: newer)

    def fail(_fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreUnwritable, match=r"v1\.bak.*Input/output error"):
        SqliteStore(tmp_path / "s.db")
    assert list(tmp_path.glob("s.db.v1.bak*")) == []
    assert sql(tmp_path / "s.db", "pragma user_version") == [(1,)]


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SqliteStore(tmp_path / "s.db").close()
    broken = [*load_migrations("sqlite"), "create table added (a); nonsense"]
    monkeypatch.setattr(sqlite_module, "load_migrations", lambda _backend: broken)
    with pytest.raises(Exception, match="nonsense"):
        SqliteStore(tmp_path / "s.db")
    assert sql(tmp_path / "s.db", "select count(*) from sqlite_schema where name = 'added'") == [(0,)]
    assert sql(tmp_path / "s.db", "pragma user_version") == [(1,)]


def test_a_disk_that_is_full_during_an_upgrade_is_called_that(tmp_path: Path) -> None:
    """SQLite ends such a transaction itself; rolling it back once more would hide why."""
    connection = apsw.Connection(str(tmp_path / "s.db"))
    connection.execute("pragma max_page_count = 40")
    too_much = "create table added (a); insert into added values (zeroblob(10000000))"
    with pytest.raises(apsw.FullError):
        migrate_sqlite(connection, tmp_path / "s.db", [*load_migrations("sqlite"), too_much])
    connection.close()


def test_a_missing_store_is_not_created_for_a_reader(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        SqliteStore(tmp_path / "s.db", create=False)
    with pytest.raises(StoreUnwritable):
        SqliteStore(tmp_path / "no folder" / "s.db")
    assert list(tmp_path.iterdir()) == []


def test_the_log_is_moved_into_the_file_beside_the_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_checkpoint, "CHECKPOINT_PAGES", 20)
    store = SqliteStore(tmp_path / "s.db")
    for _ in range(200):
        store.append([record(KEYS.root(), b"x" * 5000)])
        store._checkpoints.wait()
    assert (tmp_path / "s.db-wal").stat().st_size < 100 * 8192
    with store.read() as reader:
        assert reader.count() == 200
    store.close()


@pytest.mark.parametrize("remedy", ["", pytest.param("none", marks=pytest.mark.mutant)])
def test_the_log_stays_short_while_commits_never_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remedy: str
) -> None:
    """Whatever a thread moves, a commit that came meanwhile keeps SQLite from writing the log from its start again."""
    monkeypatch.setattr(sqlite_checkpoint, "CHECKPOINT_PAGES", 20)
    store = SqliteStore(tmp_path / "s.db")
    moved = sqlite_checkpoint.Checkpoints._run

    def commit_meanwhile(checkpoints: sqlite_checkpoint.Checkpoints) -> None:
        with store.read():  # a checkpoint moves nothing that came after what somebody still reads
            store.append([record(KEYS.root(), b"meanwhile")])
            moved(checkpoints)

    monkeypatch.setattr(sqlite_checkpoint.Checkpoints, "_run", commit_meanwhile)
    if remedy == "none":
        monkeypatch.setattr(sqlite_checkpoint.Checkpoints, "_move_here", lambda _checkpoints, _writer: None)
    for _ in range(200):
        store.append([record(KEYS.root(), b"x" * 5000)])
        store._checkpoints.wait()
    assert ((tmp_path / "s.db-wal").stat().st_size < 100 * 8192) is (remedy == "")
    store.close()


READS: dict[str, Callable[[SqliteReader, ArtifactKey], object]] = {
    "find": lambda reader, run: reader.find(run),
    "load": lambda reader, run: list(reader.load(run)),
    "load_kinds": lambda reader, run: list(reader.load_kinds(run, ["Note"])),
    "outline": lambda reader, run: list(reader.outline(run)),
    "glance": lambda reader, run: list(reader.glance(run)),
    "glance at a depth": lambda reader, run: list(reader.glance(run, depth=1)),
    "timeline_keys": lambda reader, run: list(reader.timeline_keys(run)),
    "last_key": lambda reader, run: reader.last_key(run),
    "child_keys": lambda reader, run: list(reader.child_keys(run)),
    "find_run": lambda reader, run: reader.find_run(run),
    "list_runs": lambda reader, run: reader.list_runs(),
    "find_claim": lambda reader, run: reader.find_claim(run, "a", 1, 1, "Report"),
    "list_claims": lambda reader, run: reader.list_claims(run),
}


class Decayed:
    """A connection to a file that forgot what was in one column: SQLite trusts the file about the type, too."""

    def __init__(self, connection: Any, column: int, found: object) -> None:
        self._connection, self._column, self._found = connection, column, found

    def execute(self, sql: str, values: Any = ()) -> Iterator[tuple[object, ...]]:
        for row in self._connection.execute(sql, values):
            if isinstance(self._found, Exception):
                raise self._found
            yield tuple(self._found if at == self._column else value for at, value in enumerate(row))

    def executemany(self, sql: str, values: Any) -> Iterator[tuple[object, ...]]:
        for one in values:
            yield from self.execute(sql, one)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.mark.parametrize("name", READS)
def test_a_column_that_decayed_is_read_or_refused_with_a_typed_error(store: SqliteStore, name: str) -> None:
    root = start_run(store)
    note, large = record(KEYS.child(root)), record(KEYS.child(root), os.urandom(100_000), "ToolOutput")
    store.append([note, large], claims=[Claim(root, "a", 1, 1, "Report", note.key)])
    invalid = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    connection = apsw.Connection(store.location)
    for column in range(10):
        for found in ("x" * 16, "", 7, 1.5, None, b"", b"x" * 15, b"x" * 16, invalid):
            with suppress(SapwoodError):
                READS[name](SqliteReader(Decayed(connection, column, found), store.location), root)
    connection.close()


@pytest.mark.torture(short=12, full=300)
def test_a_log_with_room_for_more_is_read_up_to_its_last_whole_commit(tmp_path: Path, dose: Dose) -> None:
    """The log is lengthened with zeros. Copied at any moment and cut anywhere, it gives whole commits, in order."""
    store = SqliteStore(tmp_path / "s.db")
    root = start_run(store)
    log = tmp_path / "s.db-wal"
    for number in range(60):
        store.append([record(KEYS.child(root), b"%03d" % number + os.urandom(20_000)) for _ in range(3)])
    size = log.stat().st_size
    assert size % (8192 + 24) != 32, "the log has no room for more; nothing is tested here"
    for number in range(dose.count):
        copy = tmp_path / f"copy{number}"
        copy.mkdir()
        names = [str(tmp_path / "s.db"), str(log)]
        subprocess.run(["cp", *names, str(copy)], check=True)  # not by this process: it would drop SQLite's locks
        if number:
            os.truncate(copy / "s.db-wal", dose.rng.randrange(size))
        again = SqliteStore(copy / "s.db")
        with again.read() as reader:
            found = [each.content[:3] for each in reader.load(root)][1:]
            assert list(reader.damaged()) == []
        again.close()
        wanted = [b"%03d" % each for each in range(60) for _ in range(3)]
        if found != wanted[: len(found)] or len(found) % 3 or (number == 0 and found != wanted):
            dose.failures.append(f"copy {number}: {len(found)} artifacts")
        shutil.rmtree(copy)
    store.close()


def test_a_store_whose_log_was_replaced_stops_at_the_next_commit(store: SqliteStore, tmp_path: Path) -> None:
    store.append([])
    (tmp_path / "s.db-wal").rename(tmp_path / "gone")
    with pytest.raises(StoreDamaged, match="removed or replaced"):
        store.append([])
    with pytest.raises(StoreDamaged):
        store.append([])


def test_no_call_opens_the_live_file_behind_the_back_of_sqlite(tmp_path: Path) -> None:
    opened: list[str] = []
    active = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if active and event == "open" and "s.db" in str(arguments[0]):
            opened.append(str(arguments[0]))

    store = SqliteStore(tmp_path / "s.db")
    sys.addaudithook(hook)
    root = start_run(store)
    store.append([record(KEYS.child(root), os.urandom(100_000))])
    with store.read() as reader:
        list(reader.load())
    for _ in range(4):  # enough for the log to be lengthened
        store.append([record(KEYS.child(root), os.urandom(30_000)) for _ in range(10)])
    store.add_version(version("tpl.a.b", "text"))
    store.close()
    active = False
    assert opened == [str(tmp_path / "s.db-wal")]  # the log alone, on which SQLite holds no locks


def test_a_forked_child_gets_a_clear_error_and_the_parent_goes_on(store: SqliteStore) -> None:
    root = start_run(store)
    pid = os.fork()
    if pid == 0:
        try:
            store.append([record(KEYS.child(root))])
        except StoreClosed as error:
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    store.append([record(KEYS.child(root))])
    with store.read() as reader:
        assert reader.count(root) == 2


class FailingSync:
    """Stands for the connection; its next commits fail as a disk does that does not confirm a sync."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, statement: str, *arguments: Any) -> object:
        if statement == "commit":
            error: Any = apsw.IOError("IOError: disk I/O error")
            error.extendedresult = apsw.SQLITE_IOERR_FSYNC
            raise error
        return self._connection.execute(statement, *arguments)


def test_after_a_failed_sync_the_store_reopens_and_goes_on(store: SqliteStore) -> None:
    root = start_run(store)
    store._writer = FailingSync(store._writer)
    with pytest.raises(SyncFailed):
        store.append([record(KEYS.child(root))])
    assert not isinstance(store._writer, FailingSync)
    store.append([record(KEYS.child(root))])
    with store.read() as reader:
        assert reader.count(root) == 2


def test_a_large_content_that_was_committed_is_no_failure_when_another_thread_closes_the_store(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_commit = store._after_commit

    def close_then() -> None:
        after_commit()
        store.close()

    monkeypatch.setattr(store, "_after_commit", close_then)
    store.append([record(KEYS.root(), b"x" * 2_000_000)])
    assert sql(tmp_path / "s.db", "select count(*) from artifact") == [(1,)]


def test_an_error_that_ended_the_read_transaction_is_the_one_that_is_told(store: SqliteStore) -> None:
    """After a failed read of the disk SQLite has rolled back itself."""

    def read_from_a_bad_disk() -> None:
        with store.read() as reader:
            reader._connection.execute("rollback")  # type: ignore[attr-defined]
            raise StoreDamaged(store.location, "the disk failed")

    with pytest.raises(StoreDamaged, match="the disk failed"):
        read_from_a_bad_disk()


def test_two_threads_may_read_and_write_at_once(store: SqliteStore) -> None:
    root = start_run(store)
    errors: list[Exception] = []

    def read() -> None:
        try:
            for _ in range(50):
                with store.read() as reader:
                    assert len(list(reader.load(root))) == reader.count(root)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        store.append([record(KEYS.child(root))])
    for thread in threads:
        thread.join()
    assert errors == []
