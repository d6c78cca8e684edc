"""Where a user may not write or read: one line and an exit code, and what can be read is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sapwood
from sapwood.app.doctor import examine
from tests.app.project import make_project

GIVEN_UP = """
import ctypes, sys
if hasattr(libc := ctypes.CDLL(None), "capset"):  # the administrator of Linux, too, obeys permissions from here on
    libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
from sapwood.cli.main import main
main(sys.argv[1:])
"""
FLOW = "name: small\nnodes: {check: {kind: command, run: [echo, fine]}}\n"


def call(folder: Path, *words: str) -> tuple[int, str, str]:
    """Run the program as somebody whom permissions bind."""
    command = [sys.executable, "-c", GIVEN_UP, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = make_project(tmp_path / "project", FLOW)
    sapwood.run_workflow(project / "flow.yaml", project=project)
    return project


@pytest.mark.parametrize("mode", [0o444, 0o644], ids=["file-and-folder", "folder"])
def test_a_store_in_a_read_only_folder_can_be_read_and_nothing_is_added(project: Path, mode: int) -> None:
    folder = project / ".sapwood"
    (folder / "sapwood.db").chmod(mode)
    folder.chmod(0o555)
    try:
        code, out, _ = call(project, "runs")
        assert (code, "completed" in out) == (0, True)
        assert call(project, "verify")[0] == 0
        code, out, errors = call(project, "run", "flow.yaml")
        assert (code, out) == (4, "")
        assert errors.startswith(f"sapwood: store {folder / 'sapwood.db'} cannot be written: ")
    finally:
        folder.chmod(0o755)


@pytest.mark.parametrize("what", [".sapwood", ".sapwood/sapwood.db"])
def test_a_store_that_may_not_be_read_is_named_in_one_line(project: Path, what: str) -> None:
    (project / what).chmod(0)
    try:
        for words in (["runs"], ["run", "flow.yaml"]):
            code, _, errors = call(project, *words)
            assert (code, errors.count("\n")) == (4, 1), errors
            assert errors.startswith(f"sapwood: cannot open {project / '.sapwood' / 'sapwood.db'}: ")
        assert call(project, "doctor")[0] == 1
    finally:
        (project / what).chmod(0o700)


def test_a_project_that_may_not_be_written_is_named_in_one_line(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", FLOW)
    project.chmod(0o555)
    try:
        code, _, errors = call(project, "run", "flow.yaml")
        assert (code, errors.count("\n")) == (4, 1)
        assert ".sapwood cannot be made (Permission denied)" in errors
        code, _, errors = call(project, "demo", "--keep", str(project / "demo"))
        assert (code, errors) == (4, f"sapwood: could not do it: {project / 'demo'}: Permission denied\n")
    finally:
        project.chmod(0o755)


@pytest.mark.parametrize("name", ["a\0b.db", "\udcff.db"], ids=["a NUL", "no UTF-8"])
def test_a_path_that_sqlite_cannot_be_given_is_no_store(tmp_path: Path, name: str) -> None:
    with pytest.raises(sapwood.WrongStore, match="no UTF-8 text, or holds a NUL"):
        sapwood.open(tmp_path / name)
    assert [check.name for check in examine(tmp_path / name) if not check.is_ok] == ["store"]
    assert list(tmp_path.iterdir()) == []


def test_a_store_whose_name_is_no_utf8_is_refused_in_one_line(tmp_path: Path) -> None:
    for words in (["runs"], ["doctor"], ["verify"], ["templates", "list"], ["run", "single", "-i", "task=x"]):
        code, _, errors = call(tmp_path, *words, "--store", os.fsdecode(b"\xff.db"))
        assert (code, errors.count("\n")) == (4 if words != ["doctor"] else 1, 1 if words != ["doctor"] else 0), words


def test_a_store_in_a_folder_that_is_not_there_names_the_folder_as_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(sapwood.StoreUnwritable, match="its folder does not exist; make it first"):
        sapwood.open(tmp_path / "runs" / "s.db")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_store_and_nobody_is_told_to_change_its_permissions(tmp_path: Path) -> None:
    with pytest.raises(sapwood.WrongStore, match="it is a folder; name a file in it"):
        sapwood.open(tmp_path)
    (wrong,) = [check for check in examine(tmp_path) if not check.is_ok]
    assert wrong.name == "store"
    assert "chmod" not in wrong.message


def test_a_pipe_or_a_device_is_no_store_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(sapwood.WrongStore, match="it is a pipe, a socket or a device; name a file"):
            sapwood.open(place)
        (wrong,) = [check for check in examine(place) if not check.is_ok]
        assert wrong.name == "store"
