"""The snapshot tells two states of a project apart, and leaves no trace in it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sapwood.runtime import snapshot
from sapwood.runtime.snapshot import take_snapshot


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    return folder


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "-q", "-b", "trunk")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    return project


def git(folder: Path, *words: str) -> str:
    who = {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t"}
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**os.environ, **who}, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_a_clean_repository_is_its_commit(repository: Path) -> None:
    found = take_snapshot(repository)
    assert found["kind"] == "git"
    assert found["commit"] == git(repository, "rev-parse", "HEAD")
    assert (found["branch"], found["dirty"], found["untracked_files"]) == ("trunk", False, 0)


def test_changed_and_untracked_files_change_the_snapshot(repository: Path) -> None:
    clean = take_snapshot(repository)
    (repository / "a.txt").write_text("two\n")
    changed = take_snapshot(repository)
    assert changed["dirty"]
    assert changed["diff_sha256"] != clean["diff_sha256"]
    assert changed["untracked_sha256"] == clean["untracked_sha256"]
    (repository / "new.txt").write_text("x")
    more = take_snapshot(repository)
    assert more["untracked_sha256"] != clean["untracked_sha256"]
    assert more["untracked_files"] == 1
    assert take_snapshot(repository, ignore={"new.txt"}) == changed


def test_a_repository_without_a_commit_and_a_detached_head_have_what_they_have(project: Path) -> None:
    git(project, "init", "-q", "-b", "trunk")
    empty = take_snapshot(project)
    assert (empty["commit"], empty["branch"], empty["dirty"]) == (None, "trunk", True)
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    git(project, "checkout", "-q", "--detach")
    assert take_snapshot(project)["branch"] is None


def test_the_repository_is_not_touched(repository: Path) -> None:
    os.utime(repository / "a.txt", (0, 0))  # a stale index is what git likes to refresh
    (repository / "b.bin").write_bytes(bytes(1000))
    git(repository, "add", "b.bin")
    git(repository, "commit", "-qm", "second")
    os.utime(repository / "b.bin", (0, 0))
    before = {path: path.stat().st_mtime_ns for path in repository.rglob("*")}
    assert take_snapshot(repository)["dirty"] is False
    assert {path: path.stat().st_mtime_ns for path in repository.rglob("*")} == before


def test_nothing_from_the_configuration_of_the_repository_is_run(repository: Path, tmp_path: Path) -> None:
    mark = tmp_path / "was-run"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    script.chmod(0o755)
    for name in ("core.fsmonitor", "diff.external", "diff.x.textconv", "diff.x.command"):
        git(repository, "config", name, str(script))
    (repository / ".gitattributes").write_text("*.txt diff=x\n")
    (repository / "a.txt").write_text("two\n")
    take_snapshot(repository)
    assert not mark.exists()


def test_without_git_the_snapshot_is_a_hash_over_all_files(project: Path) -> None:
    first = take_snapshot(project)
    assert (first["kind"], first["files"], first["is_whole"]) == ("tree", 1, True)
    assert take_snapshot(project) == first
    (project / "sapwood.db").write_text("not the project's")
    assert take_snapshot(project, ignore={"sapwood.db"}) == first
    (project / "link").symlink_to("a.txt")
    assert take_snapshot(project, ignore={"sapwood.db"}) != first


def test_what_is_too_large_to_read_counts_with_its_size_and_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MAX_TREE_BYTES", 2)
    assert take_snapshot(project)["is_whole"] is False


def test_where_the_git_program_is_missing_the_tree_is_hashed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sapwood.runtime.git._GIT", ("no-such-program-here",))
    assert take_snapshot(repository)["kind"] == "tree"
