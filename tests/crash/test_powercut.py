"""Promise 2: what a scope end or `flush()` acknowledged survives a power cut, and the file is never corrupt."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import Dose
from tests.crash.shim import build_shim, under_shim
from tests.crash.workload import read_back, safe_tokens
from tests.crash.writelog import Disk, Event, Luck, read_log

POINTS_A_LOG = 250


@dataclass
class Cuts:
    """What the power cuts did: each entry names its point."""

    lost: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    promised: int = 0  # points at which something had been acknowledged as safe


def write_log(tmp_path: Path, name: str, seed: int, mutant: str) -> tuple[Path, list[Event]]:
    """Record some runs in a process below the shim; return its folder and its log."""
    folder, log = tmp_path / name, tmp_path / f"{name}.log"
    command = ["-m", "tests.crash.recording", str(folder), name, str(seed), mutant]
    with under_shim(build_shim(tmp_path), folder, *command, log=log) as child:
        _, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors
    return folder, read_log(log)


def cut_often(tmp_path: Path, rng: random.Random, points: int, mutant: str = "") -> Cuts:
    """Cut the power at random points of one log, from its first event on."""
    folder, events = write_log(tmp_path, f"log{rng.randrange(10**9)}", rng.randrange(2**32), mutant)
    chosen = sorted(rng.choices(range(len(events)), k=points))
    cuts, disk, passed = Cuts(), Disk(folder), 0
    for number in chosen:
        for event in events[passed : number + 1]:
            disk.pass_by(event)
        passed = number + 1
        luck = rng.choice(list(Luck))
        cut_once(cuts, disk, tmp_path / "cut", luck, rng, f"{folder.name} event {number} {luck.value}")
    return cuts


def cut_once(cuts: Cuts, disk: Disk, target: Path, luck: Luck, rng: random.Random, where: str) -> None:
    disk.write_after_cut(target, luck, rng)
    safe = safe_tokens(ack.decode() for ack in disk.acknowledged)
    cuts.promised += bool(safe)
    if (target / "sapwood.db").exists():
        found = read_back(target / "sapwood.db")
        cuts.damaged += [f"{where}: {problem}" for problem in found.problems]
        if missing := safe - set(found.tokens):
            cuts.lost.append(f"{where}: {len(missing)} calls")
    elif safe:
        cuts.lost.append(f"{where}: the whole file")
    shutil.rmtree(target)


@pytest.mark.torture(short=80, full=5000)
def test_nothing_that_a_scope_end_acknowledged_is_lost_in_a_power_cut(tmp_path: Path, dose: Dose) -> None:
    promised, left = 0, dose.count
    while left > 0:
        points = min(left, POINTS_A_LOG)
        cuts = cut_often(tmp_path, dose.rng, points)
        dose.failures += cuts.lost + cuts.damaged
        promised += cuts.promised
        left -= points
    assert promised > dose.count // 4, "too few points had anything to lose"


@pytest.mark.mutant
def test_a_scope_end_that_does_not_wait_for_the_disk_shows_losses(tmp_path: Path) -> None:
    cuts = cut_often(tmp_path, random.Random(1), 60, mutant="normal_sync")
    assert len(cuts.lost) > 3
