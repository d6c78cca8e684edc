"""Many writers on one file: of those with one key exactly one wins, and why our transactions begin as writers."""

from __future__ import annotations

import multiprocessing
import threading
from pathlib import Path
from typing import Any

import pytest

from sapwood import ArtifactKey, KeyFactory, hash_bytes
from sapwood.core.record import Record
from sapwood.errors import DuplicateKey, StoreBusy
from sapwood.storage.sqlite import SqliteStore
from tests.conftest import Dose

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.crash.test_processes"])


class Deferred:
    """A connection whose transactions begin as readers."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *values: Any) -> Any:
        return self._connection.execute("begin deferred" if sql == "begin immediate" else sql, *values)


def append_deferred(path: Path, calls: int, refused: multiprocessing.Queue[int]) -> None:
    store, keys, count = SqliteStore(path), KeyFactory(), 0
    store._writer = Deferred(store._writer)
    for _ in range(calls):
        try:
            store.append([Record(keys.root(), "Input", b"1", hash_bytes(b"1"))])
        except StoreBusy:
            count += 1
    refused.put(count)


@pytest.mark.mutant
def test_transactions_that_begin_as_readers_are_turned_away(tmp_path: Path) -> None:
    path, refused = tmp_path / "sapwood.db", _context.Queue()
    SqliteStore(path).close()
    processes = [_context.Process(target=append_deferred, args=(path, 200, refused)) for _ in range(4)]
    for process in processes:
        process.start()
    assert sum(refused.get(timeout=60) for _ in processes) > 0
    for process in processes:
        process.join()


@pytest.mark.torture(short=30, full=500)
def test_of_many_threads_with_the_same_key_exactly_one_wins_and_the_first_stays(tmp_path: Path, dose: Dose) -> None:
    store, keys, threads = SqliteStore(tmp_path / "sapwood.db"), KeyFactory(), 8
    for number in range(dose.count):
        key, start = keys.root(), threading.Barrier(threads)
        winners: list[bytes] = []

        def write(
            who: int, key: ArtifactKey = key, winners: list[bytes] = winners, start: threading.Barrier = start
        ) -> None:
            content = b'"%d"' % who
            start.wait()
            try:
                store.append([Record(key, "Input", content, hash_bytes(content))])
                winners.append(content)
            except DuplicateKey:
                pass

        workers = [threading.Thread(target=write, args=(who,)) for who in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        with store.read() as reader:
            stored = reader.find(key)
        if len(winners) != 1 or stored is None or stored.content != winners[0]:
            dose.failures.append(f"key {number}: {len(winners)} winners, stored {stored and stored.content!r}")
    store.close()
