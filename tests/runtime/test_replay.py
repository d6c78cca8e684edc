"""Determinism replay: the same persisted inputs give the same bytes, in other processes and from every store."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT, Dose


def replay(dose: Dose, store: str, hash_seed: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.runtime.replay_worker", str(dose.seed), str(dose.count), store]
    environ = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.Popen(words, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True)


@pytest.mark.torture(short=200, full=10_000)
def test_context_replay_is_byte_equal_over_processes_hash_seeds_and_stores(dose: Dose) -> None:
    workers = [replay(dose, "memory", "1"), replay(dose, "sqlite", "2")]
    answers = [worker.communicate()[0].split() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    assert len(answers[0]) == len(answers[1]) == dose.count
    for number, (one, other) in enumerate(zip(*answers, strict=True)):
        if one != other:
            dose.failures.append(f"input {number}: {one} and {other}")
    assert len(set(answers[0])) > dose.count // 2  # the inputs do differ
