"""Writing against a process that swaps directories and links under the writer: not one byte gets outside."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sapwood.core.hashing import hash_bytes
from sapwood.ingest.beneath import Opener, nofollow_opener, openat2_opener
from sapwood.ingest.durable import Sync
from sapwood.ingest.staging import Draft, read_all
from sapwood.ingest.workspace import WORKSPACE, Project
from tests.conftest import Dose
from tests.ingest.corpus import CASES, OPENERS, Scene

RACES = [case for case in CASES if case["verdict"] == "never_outside"]
NO_SYNC = Sync(lambda fd: None, None)  # what is tested here is where the bytes go, not when they arrive


@contextmanager
def attacked(scene: Scene, swapped: str) -> Iterator[None]:
    """Keep exchanging `swapped`, a path below the project, with a link to OUT."""
    target, link = scene.project / swapped, scene.project / "parked"
    target.mkdir(parents=True, exist_ok=True)
    link.symlink_to(scene.out)
    command = [sys.executable, "-m", "tests.ingest.attacker", str(target), str(link)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as attacker:
        assert attacker.stdout is not None
        attacker.stdout.readline()
        try:
            yield
        finally:
            attacker.kill()


def swapped_path(race: str) -> str:
    """Return what a race of the corpus swaps, below the project: `a/b<->symlink(OUT)` -> `workspace/a/b`."""
    name = race.split("<->")[0]
    return name if name == WORKSPACE else f"{WORKSPACE}/{name}"


def outcomes_of(scene: Scene, opener: Opener, declared: str, count: int) -> Counter[str]:
    """Write the same path `count` times, each with a walk of its own; return how often each reason came back."""
    seen: Counter[str] = Counter()
    parts = tuple(declared.split("/"))
    with Project(scene.project, opener=opener, sync=NO_SYNC) as project:
        for number in range(count):
            draft = Draft(parts, b"%d" % number)
            (outcome,), _ = project.write(WORKSPACE, [draft], lambda fd, _: hash_bytes(read_all(fd)))
            seen[outcome.reason.split(":")[0]] += 1
    return seen


@pytest.mark.torture(short=20_000, full=1_000_000)
@pytest.mark.parametrize("way", OPENERS)
def test_no_byte_gets_outside_whatever_is_swapped(way: str, dose: Dose, tmp_path: Path) -> None:
    opener = OPENERS[way]()
    assert opener is not None
    for case in RACES:
        scene = Scene.build(tmp_path / case["id"])
        before = scene.tree_hash()
        with attacked(scene, swapped_path(case["race"])):
            seen = outcomes_of(scene, opener, case["path"], dose.count // len(RACES) + 1)
        if scene.tree_hash() != before:
            dose.failures.append(f"{case['id']}: OUT changed")
        if not seen[""] or not (seen["symlink"] or seen["workspace_root"]):
            dose.failures.append(f"{case['id']}: the race was never close: {seen}")
        if leftovers := list(scene.project.rglob("*.tmp")):
            dose.failures.append(f"{case['id']}: {len(leftovers)} temporary files left")


@pytest.mark.mutant
def test_an_opener_that_follows_links_is_found_out(tmp_path: Path) -> None:
    scene = Scene.build(tmp_path)
    before = scene.tree_hash()

    def following(dir_fd: int, name: str, flags: int) -> int:
        return os.open(name, flags & ~os.O_NOFOLLOW, dir_fd=dir_fd)

    with attacked(scene, "workspace/d"):
        outcomes_of(scene, following, "d/x", 300)
    assert scene.tree_hash() != before


def test_the_walk_refuses_the_same_as_openat2(tmp_path: Path) -> None:
    first = openat2_opener()
    assert first is not None
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "dir").mkdir()
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        for opener in (first, nofollow_opener()):
            os.close(opener(fd, "dir", os.O_RDONLY))
            with pytest.raises(OSError):
                opener(fd, "link", os.O_RDONLY)
            with pytest.raises(FileNotFoundError):
                opener(fd, "nothing", os.O_RDONLY)
    finally:
        os.close(fd)


def test_a_writer_that_ends_just_when_another_starts_disturbs_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second has opened the first one's marker, and the first removes it before the second has its lock."""
    first = Project(tmp_path, sync=NO_SYNC).__enter__()
    first.start_writing()
    ending = [first]
    real = fcntl.flock

    def flock(fd: int, operation: int) -> None:
        if operation & fcntl.LOCK_NB and ending:
            ending.pop().__exit__()
        real(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with Project(tmp_path, sync=NO_SYNC) as second:
        outcomes, _ = second.write(WORKSPACE, [Draft(("a.txt",), b"a")], lambda fd, _: hash_bytes(read_all(fd)))
    assert not ending
    assert [outcome.reason for outcome in outcomes] == [""]
