"""Cancelled, interrupted, forked: what a caller was told is what is stored."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Dose
from tests.crash.workload import read_back

TIMEOUT_S = 1800


def run_programme(name: str, *arguments: object) -> list[str]:
    command = [sys.executable, "-m", f"tests.crash.{name}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode in (0, -9), done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("how", ["asyncio", "interrupt", "thread"])
@pytest.mark.torture(short=80, full=1000)
def test_what_was_reported_before_a_cancellation_is_what_is_stored(tmp_path: Path, dose: Dose, how: str) -> None:
    *problems, last = run_programme("cancelled", tmp_path / "s.db", how, dose.count, dose.seed, "")
    dose.failures += problems
    assert int(last) >= dose.count


@pytest.mark.mutant
@pytest.mark.parametrize(("how", "mutant"), [("asyncio", "not_shielded"), ("interrupt", "never_in_doubt")])
def test_a_cancellation_that_leaves_it_open_shows(tmp_path: Path, how: str, mutant: str) -> None:
    assert len(run_programme("cancelled", tmp_path / "s.db", how, 400, 1, mutant)) > 1


def fork_often(path: Path, count: int, seed: int, mutant: str = "") -> list[str]:
    lines = run_programme("forked", path, count, seed, mutant)
    assert "last" in lines
    problems = [line for line in lines if line.startswith("problem")]
    found = read_back(path)
    lost = set(lines) - set(problems) - set(found.tokens)
    return problems + found.problems + [f"reported, not stored: {token}" for token in sorted(lost)]


@pytest.mark.torture(short=15, full=200)
def test_after_a_fork_parent_and_child_keep_what_they_reported(tmp_path: Path, dose: Dose) -> None:
    dose.failures += fork_often(tmp_path / "s.db", dose.count, dose.seed)


@pytest.mark.mutant
def test_a_child_that_keeps_what_it_inherited_shows(tmp_path: Path) -> None:
    assert fork_often(tmp_path / "s.db", 5, 1, "child_keeps_all")
