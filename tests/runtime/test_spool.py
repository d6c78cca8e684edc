"""The spool brings back whole calls, never half ones, and tells who lives."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import KeyFactory, hash_bytes
from sapwood.core.record import Record
from sapwood.errors import StoreUnwritable
from sapwood.ports import RunEnd, RunStart
from sapwood.runtime import spool as spool_module
from sapwood.runtime.recovery import Recovered, recover
from sapwood.runtime.spool import Call, Spool, is_owner_alive, leftovers, read_calls
from sapwood.storage.memory import MemoryStore

KEYS = KeyFactory()


def record(content: bytes = b"x", kind: str = "Input") -> Record:
    return Record(KEYS.root(), kind, content, hash_bytes(content), b"{}")


def call(count: int = 2) -> Call:
    run = KEYS.root()
    return Call([record(os.urandom(50)) for _ in range(count)], [RunStart(run, 1, 2, "me", 3, 4)])


def die(spool: Spool) -> None:
    """Let go of the file the way a killed process does."""
    spool.leave_to_parent()


def test_calls_come_back_as_they_were_written(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", "a")
    calls = [call(), call(0), call(5)]
    for each in calls:
        spool.write(each)
    die(spool)
    assert [found for _, found in leftovers(tmp_path / "spool")] == [calls]


@given(st.data())
def test_a_file_cut_or_changed_anywhere_gives_a_prefix_of_whole_calls(data: st.DataObject) -> None:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"sapwood-spool-test-{os.getpid()}"
    spool = Spool(path, f"{KEYS.segment()}")
    calls = [call(), call(), call()]
    for each in calls:
        spool.write(each)
    content = bytearray(spool._path.read_bytes())
    spool.close()
    path.rmdir()
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    found = list(read_calls(bytes(content)))
    assert found == calls[: len(found)]
    assert len(found) < len(calls)


@pytest.mark.mutant
@pytest.mark.parametrize(("check", "lie", "where"), [("crc32", 0, "kind"), ("hash_bytes", ANY, "content")])
def test_without_either_check_a_changed_byte_would_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: str, lie: Any, where: str
) -> None:
    monkeypatch.setattr(spool_module, check, lambda *_: lie)
    spool = Spool(tmp_path / "spool", "a")
    spool.write(call())
    content = bytearray(spool._path.read_bytes())
    content[content.index(b"Input") if where == "kind" else -10] ^= 1
    assert len(list(read_calls(bytes(content)))) == 1
    spool.close()


def test_a_new_epoch_hides_the_frames_of_the_old_one(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", "a")
    for _ in range(5):
        spool.write(call())
    spool.start_epoch()
    fresh = call(1)
    spool.write(fresh)
    die(spool)
    assert [found for _, found in leftovers(tmp_path / "spool")] == [[fresh]]


def test_the_lock_says_whether_the_owner_lives(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    assert not is_owner_alive(folder, "a")
    spool = Spool(folder, "a")
    assert is_owner_alive(folder, "a")
    assert list(leftovers(folder)) == []
    die(spool)
    assert not is_owner_alive(folder, "a")


def test_the_files_are_for_their_owner_only(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", "a")
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700
    assert spool._path.stat().st_mode & 0o777 == 0o600
    spool.close()
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_call_that_the_disk_does_not_take_whole_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path / "spool", "a")
    first, second = call(), call()
    spool.write(first)
    real = os.pwritev
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", lambda fd, parts, at: os.pwrite(fd, b"".join(parts)[:30], at))
        with pytest.raises(StoreUnwritable, match="only 30 of"):
            spool.write(call())
    assert os.pwritev is real
    spool.write(second)
    die(spool)
    assert [found for _, found in leftovers(tmp_path / "spool")] == [[first, second]]


def test_recovery_stores_what_is_missing_once(tmp_path: Path) -> None:
    store, folder = MemoryStore(), tmp_path / "spool"
    spool = Spool(folder, "a")
    calls = [call(), call(3)]
    for each in calls:
        spool.write(each)
    store.append(calls[0].records, starts=calls[0].starts)
    assert recover(store, folder) == Recovered(0, 0, 0)  # its owner lives
    die(spool)
    assert recover(store, folder) == Recovered(1, 3, 0)
    assert recover(store, folder) == Recovered(0, 0, 0)
    with store.read() as reader:
        assert list(reader.load()) == sorted([*calls[0].records, *calls[1].records])
        assert len(reader.list_runs()) == 2


def test_what_comes_back_for_a_sealed_run_is_kept_aside(tmp_path: Path) -> None:
    store, folder = MemoryStore(), tmp_path / "spool"
    run = record(kind="Execution")
    store.append([run], starts=[RunStart(run.key, 1, 0)])
    late = Record(KEYS.child(run.key), "Note", b"late", hash_bytes(b"late"), b"{}")
    spool = Spool(folder, "a")
    spool.write(Call([late]))
    spool.write(call(1))
    die(spool)
    store.append([], end=RunEnd(run.key, "completed", 1, "00" * 32, 1))
    assert recover(store, folder) == Recovered(1, 1, 1)
    assert [path.name for path in folder.iterdir()] == ["a.refused"]


def test_a_spool_that_could_not_be_made_can_be_made_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuse)
        with pytest.raises(OSError, match="No space"):
            Spool(tmp_path / "spool", "me")
    assert list((tmp_path / "spool").iterdir()) == []
    Spool(tmp_path / "spool", "me").close()


@pytest.mark.parametrize("step", ["open", "flock", "rename"])
def test_ctrl_c_while_the_spool_is_made_is_ctrl_c_and_the_next_call_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    place = {"open": os, "flock": fcntl, "rename": Path}[step]
    real = getattr(place, step)

    def done_and_interrupted(*words: Any, **options: Any) -> None:
        real(*words, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place, step, done_and_interrupted)
        with pytest.raises(KeyboardInterrupt):
            Spool(tmp_path, "a")
    spool = Spool(tmp_path, "a")
    spool.write(call())
    assert is_owner_alive(tmp_path, "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a.spool"]
    spool.close()


def test_a_spool_that_was_never_finished_is_removed_once_nobody_can_be_at_it(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    old, fresh = folder / "old.new", folder / "fresh.new"
    old.touch()
    fresh.touch()
    os.utime(old, (0, 0))
    recover(MemoryStore(), folder)
    assert list(folder.iterdir()) == [fresh]


def test_ctrl_c_between_a_write_and_its_count_costs_no_later_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frame that was interrupted is nobody's; those after it are where the spool believes them to be."""
    real = os.pwritev

    def interrupted(fd: int, parts: Sequence[bytes], at: int) -> int:
        real(fd, parts, at)
        raise KeyboardInterrupt

    spool, calls = Spool(tmp_path / "spool", "a"), [call(), call(), call()]
    spool.write(calls[0])
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", interrupted)
        with pytest.raises(KeyboardInterrupt):
            spool.write(call(7))
    spool.write(calls[1])
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", lambda fd, parts, at: real(fd, [b"".join(parts)[:30]], at))
        with pytest.raises(StoreUnwritable):
            spool.write(call())
    spool.write(calls[2])
    die(spool)
    assert [found for _, found in leftovers(tmp_path / "spool")] == [calls]
