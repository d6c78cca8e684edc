"""Promise 1 on the bus: a recording call that returned survives the death of its process, whole."""

from __future__ import annotations

import multiprocessing
import os
import time
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from sapwood import KeyFactory, hash_bytes
from sapwood.core.record import Record
from sapwood.runtime import spool as spool_module
from sapwood.runtime.recorder import Recorder
from sapwood.runtime.recovery import recover
from sapwood.storage.sqlite import SqliteStore
from tests.conftest import Dose

PARTS = 3  # artifacts a call makes: all of them are there, or none
KILLS_A_FILE = 25

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.crash.test_kill"])


def record_until_killed(folder: Path, name: str, with_spool: bool, acks: Connection) -> None:
    if not with_spool:
        spool_module.Spool.write = lambda self, call: 1000  # type: ignore[method-assign]  # the mutant
    store, keys, pipe = SqliteStore(folder / "s.db"), KeyFactory(), acks.fileno()
    recorder = Recorder(store, folder / "spool", name)
    for number in count():
        token = f"{name}-{number}"
        parts = [f"{token} {part} ".encode() + b"x" * (number % 700) for part in range(PARTS)]
        recorder.record([Record(keys.root(), "Input", part, hash_bytes(part)) for part in parts])
        os.write(pipe, token.encode() + b"\n")
        if number % 13 == 12:
            recorder.flush()


def record_and_kill(folder: Path, name: str, after_s: float, with_spool: bool = True) -> set[str]:
    """Return the calls that had been acknowledged when the process was killed."""
    reading, writing = _context.Pipe(duplex=False)
    process = _context.Process(target=record_until_killed, args=(folder, name, with_spool, writing))
    process.start()
    writing.close()
    pipe = reading.fileno()
    raw, deadline = os.read(pipe, 1 << 16), time.monotonic() + after_s
    os.set_blocking(pipe, False)
    while time.monotonic() < deadline:
        raw += read_now(pipe)
        time.sleep(0.0005)
    process.kill()
    process.join()
    while more := read_now(pipe):
        raw += more
    assert process.exitcode == -9, f"the recording process ended by itself: {process.exitcode}"
    return {line.decode() for line in raw.split(b"\n")[:-1]}


def read_now(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1 << 20)
    except BlockingIOError:
        return b""


def problems_after(folder: Path, acknowledged: set[str]) -> list[str]:
    """Recover as the next start does, and return what is lost, half there or wrong."""
    store = SqliteStore(folder / "s.db")
    recover(store, folder / "spool")
    found: dict[str, int] = {}
    problems = []
    with store.read() as reader:
        for record in reader.load():
            token = record.content.split(b" ", 1)[0].decode()
            found[token] = found.get(token, 0) + 1
            if hash_bytes(record.content) != record.content_hash:
                problems.append(f"wrong bytes in {record.key}")
        problems += list(reader.damaged())
    store.close()
    problems += [f"half a call: {token}" for token, parts in found.items() if parts != PARTS]
    if lost := acknowledged - set(found):
        problems.append(f"{len(lost)} acknowledged calls lost, as {min(lost)}")
    return problems


@pytest.mark.torture(short=20, full=2000)
def test_no_call_that_returned_is_lost_when_the_process_is_killed(tmp_path: Path, dose: Dose) -> None:
    acknowledged: set[str] = set()
    for number in range(dose.count):
        folder = tmp_path / str(number // KILLS_A_FILE)
        if number % KILLS_A_FILE == 0:
            folder.mkdir()
            acknowledged = set()
        acknowledged |= record_and_kill(folder, f"k{number}", dose.rng.uniform(0, 0.08))
        dose.failures += [f"kill {number}: {problem}" for problem in problems_after(folder, acknowledged)]
    assert acknowledged


@pytest.mark.mutant
def test_without_the_spool_calls_that_returned_are_lost(tmp_path: Path) -> None:
    for number in range(60):  # a kill right after a commit loses nothing: go on until one hits between two
        folder = tmp_path / str(number)
        folder.mkdir()
        if problems_after(folder, record_and_kill(folder, "k", 0.02 + 0.003 * (number % 20), with_spool=False)):
            return
    pytest.fail("no call was lost without the spool: the programme above cannot see a loss")
