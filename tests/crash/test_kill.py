"""Promise 1: a recording call that returned survives the death of its process, whole."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.conftest import Dose
from tests.crash.mutants import break_it
from tests.crash.workload import SAFE, read_back, record_runs

KILLS_A_FILE = 10  # a store that was killed often must still be right

_context = multiprocessing.get_context("forkserver")  # a fork of a small process: no second start of the interpreter
_context.set_forkserver_preload(["tests.crash.test_kill", "sapwood.app", "sapwood.storage.sqlite", "jinja2"])


def record_until_killed(path: Path, name: str, seed: int, mutant: str, acks: Connection) -> None:
    break_it(mutant)
    pipe = acks.fileno()

    def acknowledge(token: str) -> None:
        os.write(pipe, token.encode() + b"\n")

    acknowledge(SAFE)  # the first moment at which it may be killed: before the store is opened
    record_runs(path, name, seed, acknowledge)


def record_and_kill(path: Path, name: str, seed: int, after_s: float, mutant: str = "") -> set[str]:
    """Return the calls that had been acknowledged when the process was killed, `after_s` after its start."""
    reading, writing = _context.Pipe(duplex=False)
    process = _context.Process(target=record_until_killed, args=(path, name, seed, mutant, writing), daemon=True)
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
    return {line.decode() for line in raw.split(b"\n")[:-1]} - {SAFE}


def read_now(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1 << 20)
    except BlockingIOError:
        return b""


def kill_often(
    folder: Path, rng: random.Random, kills: int, mutant: str = "", is_enough: Callable[[list[str]], bool] | None = None
) -> tuple[int, int, list[str]]:
    """Return how many calls were acknowledged, how many runs were interrupted, and what went wrong."""
    acknowledged, interrupted, failures, expected = 0, 0, list[str](), set[str]()
    for number in range(kills):
        path = folder / f"{number // KILLS_A_FILE}.db"
        if number % KILLS_A_FILE == 0:
            expected = set()
        returned = record_and_kill(path, f"k{number}", rng.randrange(2**32), rng.uniform(0, 0.15), mutant)
        expected |= returned
        acknowledged += len(returned)
        if not path.exists():  # killed before it made its file
            continue
        found = read_back(path)
        failures += [f"kill {number}: {problem}" for problem in found.problems]
        if lost := expected - set(found.tokens):
            failures.append(f"kill {number}: {len(lost)} acknowledged calls lost, as {min(lost)}")
        interrupted += found.interrupted
        if is_enough is not None and is_enough(failures):
            break
    return acknowledged, interrupted, failures


@pytest.mark.torture(short=25, full=2000)
def test_no_call_that_returned_is_lost_when_the_process_is_killed(tmp_path: Path, dose: Dose) -> None:
    acknowledged, interrupted, failures = kill_often(tmp_path, dose.rng, dose.count)
    dose.failures += failures
    assert acknowledged > dose.count
    assert interrupted > 0, "no kill met an open run: this programme proved nothing"


@pytest.mark.mutant
@pytest.mark.parametrize(("mutant", "sign"), [("no_spool", "calls lost"), ("torn_calls", "half a call")])
def test_a_broken_spool_shows(tmp_path: Path, mutant: str, sign: str) -> None:
    def is_seen(failures: list[str]) -> bool:
        return any(sign in failure for failure in failures)

    _, _, failures = kill_often(tmp_path, random.Random(1), 300, mutant, is_seen)
    assert is_seen(failures)
