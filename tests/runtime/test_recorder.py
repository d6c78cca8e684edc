"""The bus records first, refuses what would make the record untrue, and no listener stops it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sapwood import ArtifactKey, KeyFactory, hash_bytes
from sapwood.core.record import Record
from sapwood.errors import DanglingReference, DuplicateKey, InvalidArtifact, RunSealed, StoreClosed, StoreUnwritable
from sapwood.ports import RunEnd, RunStart
from sapwood.runtime import recorder as recorder_module
from sapwood.runtime.recorder import Recorder
from sapwood.runtime.spool import leftovers
from sapwood.storage.memory import MemoryStore
from sapwood.storage.sqlite import SqliteStore

KEYS = KeyFactory()


def record(key: ArtifactKey | None = None, content: bytes = b"{}", kind: str = "Input") -> Record:
    return Record(key or KEYS.root(), kind, content, hash_bytes(content), b"{}")


def reference(source: ArtifactKey, target: ArtifactKey) -> Record:
    return record(source, b'{"role":"template","target":"%s"}' % target.text.encode(), "RefArtifact")


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    recorder = Recorder(MemoryStore(), tmp_path / "spool", "me")
    yield recorder
    recorder.close()


def stored(recorder: Recorder) -> list[Record]:
    with recorder.store.read() as reader:
        return list(reader.load())


def test_a_call_is_in_the_spool_when_it_returns_and_in_the_store_after_a_flush(
    recorder: Recorder, tmp_path: Path
) -> None:
    recorder.record([record()])
    assert stored(recorder) == []
    assert (tmp_path / "spool" / "me.spool").stat().st_size > 0
    recorder.flush()
    assert len(stored(recorder)) == 1


def test_what_is_recorded_after_one_megabyte_or_250_ms_commits_what_came_before(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.record([record(content=b"x" * 1_100_000)])
    recorder.record([record()])
    assert len(stored(recorder)) == 1
    monkeypatch.setattr(recorder, "_due_at", 0.0)
    recorder.record([record()])
    assert len(stored(recorder)) == 2


def test_of_two_artifacts_with_one_key_the_first_stays_and_the_second_is_logged_and_counted(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    key = KEYS.root()
    recorder.publish([record(key, b"1")])
    with pytest.raises(DuplicateKey), caplog.at_level(logging.ERROR):
        recorder.publish([record(key, b"2")])
    recorder.flush()
    with pytest.raises(DuplicateKey):
        recorder.publish([record(key, b"3")])
    assert [found.content for found in stored(recorder)] == [b"1"]
    assert recorder.duplicates == 2
    assert key.text in caplog.text


def test_of_many_threads_that_publish_one_key_exactly_one_wins(recorder: Recorder) -> None:
    keys = [KEYS.root() for _ in range(50)]
    wins: list[tuple[ArtifactKey, bytes]] = []

    def contend(name: bytes) -> None:
        for key in keys:
            try:
                recorder.publish([record(key, name)])
                wins.append((key, name))
            except DuplicateKey:
                pass

    threads = [threading.Thread(target=contend, args=(b"%d" % number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.flush()
    assert sorted((found.key, found.content) for found in stored(recorder)) == sorted(wins)
    assert recorder.duplicates == 7 * len(keys)


def test_a_key_that_another_process_took_meanwhile_is_refused_at_the_flush_and_the_rest_is_kept(
    recorder: Recorder,
) -> None:
    key, other = KEYS.root(), KEYS.root()
    recorder.publish([record(key, b"mine")])
    recorder.publish([record(other, b"other")])
    recorder.store.append([record(key, b"theirs")])
    with pytest.raises(DuplicateKey):
        recorder.flush()
    assert {found.content for found in stored(recorder)} == {b"theirs", b"other"}
    recorder.flush()


def test_a_reference_to_a_shared_artifact_that_is_not_stored_is_refused_with_its_whole_call(recorder: Recorder) -> None:
    run = KEYS.root()
    with pytest.raises(DanglingReference):
        recorder.publish([record(run), reference(KEYS.child(run), KEYS.root())])
    shared = replace(record(kind="PromptTemplate"), metadata=b'{"template_id":"tpl.a.b"}')
    recorder.publish([shared])
    recorder.publish([record(run), reference(KEYS.child(run), shared.key)])
    recorder.publish([reference(KEYS.child(run), KEYS.child(run))])  # inside the run it may come first
    recorder.flush()
    assert len(stored(recorder)) == 4


def test_a_record_whose_hash_is_not_that_of_its_content_is_refused(recorder: Recorder) -> None:
    with pytest.raises(InvalidArtifact, match="content_hash"):
        recorder.publish([replace(record(), content=b"[]")])


def test_a_sealed_run_is_refused_at_once_and_at_the_commit(recorder: Recorder) -> None:
    run = record(kind="Execution")
    recorder.publish([run], [RunStart(run.key, 1, 0)])
    recorder.flush()
    recorder.publish([record(KEYS.child(run.key))])
    recorder.store.append([], end=RunEnd(run.key, "failed", 1, "00" * 32, 1))
    recorder.record([record()])
    with pytest.raises(RunSealed):
        recorder.flush()
    with pytest.raises(RunSealed):
        recorder.publish([record(KEYS.child(run.key))])
    assert len(stored(recorder)) == 2  # the run and what belongs to no run


def test_a_child_older_than_its_parent_is_accepted_with_a_warning(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    child = KEYS.root().child(KeyFactory(clock=lambda: 1).segment())
    with caplog.at_level(logging.WARNING):
        recorder.publish([record(child)])
    assert "older than its parent" in caplog.text
    recorder.flush()
    assert [found.key for found in stored(recorder)] == [child]


def test_listeners_hear_of_what_is_recorded_and_their_failures_stop_nothing(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Record] = []

    def fail(_records: Sequence[Record]) -> None:
        raise RuntimeError("listener broke")

    recorder.subscribe(fail)
    leave = recorder.subscribe(heard.extend)
    first, second = record(), record()
    recorder.record([first])
    leave()
    recorder.record([second])
    recorder.flush()
    assert heard == [first]
    assert "listener broke" in caplog.text
    assert stored(recorder) == [first, second]


@pytest.mark.parametrize("call", ["record", "publish", "append"])
def test_a_listener_may_wait_for_another_thread_that_records(recorder: Recorder, call: str) -> None:
    done: list[bool] = []

    def wait_for_another(heard: Sequence[Record]) -> None:
        if heard[0].content == b"1":
            other = threading.Thread(target=recorder.record, args=([record(content=b"2")],), daemon=True)
            other.start()
            other.join(5)
            done.append(not other.is_alive())

    recorder.subscribe(wait_for_another)
    getattr(recorder, call)([record(content=b"1")])
    assert done == [True]


class Unwilling(MemoryStore):
    """A store that fails as often as it is told, after or before it has stored."""

    failures = 0
    stores_first = False

    def append(self, records: Sequence[Record], **rest: Any) -> None:
        if self.failures and not self.stores_first:
            self.failures -= 1
            raise StoreUnwritable("here", "the disk is full")
        super().append(records, **rest)
        if self.failures:
            self.failures -= 1
            raise StoreUnwritable("here", "the disk failed")


@pytest.mark.parametrize("stores_first", [False, True])
def test_a_commit_that_failed_is_made_up_for_by_the_next_one_whatever_came_of_it(
    tmp_path: Path, stores_first: bool
) -> None:
    store = Unwilling()
    recorder = Recorder(store, tmp_path / "spool", "me")
    run = record(kind="Execution")
    recorder.record([run], [RunStart(run.key, 1, 0)])
    store.failures, store.stores_first = 1, stores_first
    with pytest.raises(StoreUnwritable):
        recorder.flush()
    recorder.record([record()])
    recorder.flush()
    assert len(stored(recorder)) == 2
    assert recorder.duplicates == 0
    recorder.close()


def test_a_disk_that_takes_nothing_on_the_way_fails_no_call_until_much_is_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Unwilling()
    store.failures = 10**9
    recorder = Recorder(store, tmp_path / "spool", "me")
    for _ in range(3):
        recorder.record([record(content=b"x" * 1_100_000)])
    monkeypatch.setattr(recorder_module, "REFUSE_BYTES", 1_000_000)
    with pytest.raises(StoreUnwritable):
        recorder.record([record()])
    store.failures = 0
    recorder.close()
    assert len(stored(recorder)) == 3


def test_what_cannot_be_committed_when_the_recorder_is_closed_stays_in_the_spool(tmp_path: Path) -> None:
    store = Unwilling()
    recorder = Recorder(store, tmp_path / "spool", "me")
    only = record()
    recorder.record([only])
    store.failures = 1
    with pytest.raises(StoreUnwritable):
        recorder.close()
    assert [found[0].records for _, found in leftovers(tmp_path / "spool")] == [[only]]


def test_a_forked_child_is_told_so_and_the_lock_stays_the_parents(tmp_path: Path) -> None:
    recorder = Recorder(SqliteStore(tmp_path / "s.db"), tmp_path / "spool", "me")
    recorder.record([record()])
    pid = os.fork()
    if pid == 0:
        try:
            recorder.record([record()])
        except StoreClosed:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert list(leftovers(tmp_path / "spool")) == []
    recorder.record([record()])
    recorder.flush()
    assert len(stored(recorder)) == 2
    recorder.close()
    recorder.store.close()
