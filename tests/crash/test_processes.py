"""Many writers on one file: nobody is turned away, nothing is lost, and of those with one key the first stays."""

from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import pytest

import sapwood
from sapwood import ArtifactKey, KeyFactory, hash_bytes
from sapwood.core.record import Record
from sapwood.errors import DuplicateKey
from sapwood.runtime.session import Store
from sapwood.storage.sqlite import SqliteStore
from tests.conftest import Dose
from tests.crash.workload import read_back, record_call, register

WRITERS = 8
CALLS_A_SCOPE = 10

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.crash.test_processes", "sapwood.app", "sapwood.storage.sqlite", "jinja2"])


class Deferred:
    """A connection whose transactions begin as readers."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *values: Any) -> Any:
        return self._connection.execute("begin deferred" if sql == "begin immediate" else sql, *values)


def in_processes(target: Callable[..., None], *arguments: Any, processes: int = WRITERS) -> list[Any]:
    """Run `target(number, *arguments, answers)` in each process; return what each of them put into `answers`."""
    answers: SimpleQueue[Any] = _context.SimpleQueue()
    children = [
        _context.Process(target=target, args=(number, *arguments, answers), daemon=True) for number in range(processes)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * processes
    return [answers.get() for _ in children]


def record_calls(number: int, path: Path, calls: int, is_deferred: bool, answers: SimpleQueue[str]) -> None:
    try:
        with sapwood.open(path) as store:
            if is_deferred:
                assert isinstance(store.artifacts, SqliteStore)
                store.artifacts._writer = Deferred(store.artifacts._writer)
            register(store)
            with store.record(config={}, inputs={"number": number}) as run:
                for scope in range(0, calls, CALLS_A_SCOPE):
                    with run.agent(f"node-{scope}") as agent:
                        for call in range(scope, min(calls, scope + CALLS_A_SCOPE)):
                            record_call(agent, f"p{number}-{call}")
        answers.put("")
    except Exception as error:
        answers.put(f"process {number}: {error!r}")


@pytest.mark.torture(short=60, full=2000)
def test_eight_writers_record_into_one_file_and_all_of_it_is_there(tmp_path: Path, dose: Dose) -> None:
    path = tmp_path / "sapwood.db"
    dose.failures += filter(None, in_processes(record_calls, path, dose.count, False))
    found = read_back(path)
    dose.failures += found.problems
    expected = Counter(f"p{number}-{call}" for number in range(WRITERS) for call in range(dose.count))
    dose.failures += [
        f"missing or too often: {token}" for token in (expected - found.tokens) | (found.tokens - expected)
    ]
    with sapwood.open(path) as store:
        assert [row.status for row in store.runs()] == ["completed"] * WRITERS


@pytest.mark.mutant
def test_transactions_that_begin_as_readers_are_turned_away(tmp_path: Path) -> None:
    sapwood.open(tmp_path / "sapwood.db").close()
    assert any("StoreBusy" in answer for answer in in_processes(record_calls, tmp_path / "sapwood.db", 400, True))


def publish(store: Store, key: ArtifactKey, who: str) -> bool:
    """Publish under a key that others want too; tell whether it was stored."""
    content = f'"{who}"'.encode()
    try:
        store.publish(Record(key, "ToolOutput", content, hash_bytes(content)))
        store.flush()
    except DuplicateKey:
        return False
    return True


@pytest.mark.torture(short=20, full=500)
def test_of_many_threads_with_the_same_key_exactly_one_wins_and_the_first_stays(tmp_path: Path, dose: Dose) -> None:
    with sapwood.open(tmp_path / "sapwood.db") as store:
        root = store.record().key
        for number in range(dose.count):
            dose.failures += race_threads(store, KeyFactory().child(root), number)


def race_threads(store: Store, key: ArtifactKey, number: int) -> list[str]:
    start, winners = threading.Barrier(WRITERS), list[str]()

    def race(who: str) -> None:
        start.wait()
        if publish(store, key, who):
            winners.append(who)

    threads = [threading.Thread(target=race, args=(f"t{who}",)) for who in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not publish(store, key, "late"):
        return problems_of(store, key, winners, number)
    return [f"key {number}: taken a second time"]


def problems_of(store: Store, key: ArtifactKey, winners: list[str], number: int) -> list[str]:
    with store.artifacts.read() as reader:
        stored = reader.find(key)
    if len(winners) == 1 and stored is not None and stored.content == f'"{winners[0]}"'.encode():
        return []
    return [f"key {number}: winners {winners}, stored {stored and stored.content!r}"]


def race_processes(number: int, path: Path, keys: list[ArtifactKey], answers: SimpleQueue[list[int]]) -> None:
    with sapwood.open(path) as store:
        answers.put([number, *(publish(store, key, f"p{number}") for key in keys)])


@pytest.mark.torture(short=40, full=1000)
def test_of_many_processes_with_the_same_key_exactly_one_wins_and_the_first_stays(tmp_path: Path, dose: Dose) -> None:
    path, factory = tmp_path / "sapwood.db", KeyFactory()
    with sapwood.open(path) as store:
        root = store.record().key
        keys = [factory.child(root) for _ in range(dose.count)]
        answers = in_processes(race_processes, path, keys, processes=4)
        for number, key in enumerate(keys):
            winners = [f"p{answer[0]}" for answer in answers if answer[number + 1]]
            dose.failures += problems_of(store, key, winners, number)


@pytest.mark.mutant
def test_a_store_in_which_the_last_one_stays_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sapwood.open(tmp_path / "sapwood.db") as store:
        root = store.record().key
        monkeypatch.setattr(store.recorder, "_refuse_taken", lambda _records: None)
        monkeypatch.setattr("sapwood.storage.sqlite_writer.INSERT", INSERT_OR_REPLACE)
        assert isinstance(store.artifacts, SqliteStore)
        store.artifacts._writer.execute("drop trigger artifact_once")
        assert any(race_threads(store, KeyFactory().child(root), number) for number in range(5))


INSERT_OR_REPLACE = (
    "insert or replace into artifact (key, kind, hash, metadata, content, chunks, crc) values (?, ?, ?, ?, ?, ?, ?)"
)
