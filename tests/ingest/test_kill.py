"""kill -9 at any moment: what a manifest calls written is on the disk, and no temporary file survives the next start."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sapwood
from sapwood.ingest.workspace import Project
from tests.conftest import Dose

ROOT = Path(__file__).parents[2]


def run_writer(project: Path, first: int, *more: str, kill_after_s: float | None = None) -> None:
    command = [sys.executable, "-m", "tests.ingest.writer", str(project), str(first), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            writer.kill()
        writer.wait(timeout=60)


def next_start(project: Path) -> None:
    sapwood.ingest_document("```text file=next\nx\n```\n", project, run_id="next", node_id="next")


def broken_promises(project: Path) -> list[str]:
    broken = [f"left: {path}" for path in project.rglob("*.tmp")]
    newest = -1
    for path in project.glob(".sapwood/ingest/*/*.json"):
        manifest = json.loads(path.read_bytes())
        for entry in manifest["artifacts"]:
            if entry["status"] != "written":
                continue
            if entry["declared_file"] == "same.txt":
                newest = max(newest, int(manifest["node_id"].removeprefix("node")))
                continue
            target = project / entry["workspace_path"]
            if not target.exists() or hashlib.sha256(target.read_bytes()).hexdigest() != entry["sha256"]:
                broken.append(f"not on the disk: {entry['workspace_path']}")
    same = project / "workspace" / "same.txt"
    if newest >= 0 and (not same.exists() or int(same.read_text()) < newest):
        broken.append(f"same.txt is older than document {newest}")
    for line in (project / ".sapwood" / "events.jsonl").read_bytes().splitlines():
        json.loads(line)
    return broken


@pytest.mark.torture(short=15, full=500)
def test_kill_9_at_a_random_moment_breaks_no_promise(dose: Dose, tmp_path: Path) -> None:
    for kill in range(dose.count):
        project = tmp_path / str(kill // 25)
        project.mkdir(exist_ok=True)
        run_writer(project, kill * 10_000, kill_after_s=dose.rng.random() * 0.12)
        next_start(project)
        dose.failures += [f"kill {kill}: {broken}" for broken in broken_promises(project)]


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5, 6, 7, 9, 11])
def test_death_at_each_sync_breaks_no_promise(at: int, tmp_path: Path) -> None:
    run_writer(tmp_path, 0, str(at))
    next_start(tmp_path)
    assert broken_promises(tmp_path) == []


@pytest.mark.mutant
def test_a_start_that_removes_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run_writer(tmp_path, 0, "1")
    monkeypatch.setattr(Project, "_remove_leftovers", lambda self, pending: None)
    next_start(tmp_path)
    assert any(broken.startswith("left") for broken in broken_promises(tmp_path))


@pytest.mark.mutant
def test_a_manifest_that_comes_before_its_files_is_found_out(tmp_path: Path) -> None:
    run_writer(tmp_path, 0, "9", "mutant")
    next_start(tmp_path)
    assert any(broken.startswith("not on the disk") for broken in broken_promises(tmp_path))


def test_a_living_writer_keeps_its_temporary_files(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    with Project(tmp_path) as living:
        living.start_writing()
        temporary = tmp_path / "workspace" / living.temporary_name()
        temporary.write_text("half")
        next_start(tmp_path)
        assert temporary.exists()
        temporary.unlink()
