"""`doctor` says what is wrong around a store, changes nothing by looking, and ends a run only when its owner is gone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import sapwood
from sapwood.app.doctor import Check, examine, file_system_of
from sapwood.cli.main import cli

MOUNTS = """\
22 1 8:1 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /home/me/with\\040space rw - nfs4 server:/x rw
31 22 0:41 / /home rw - xfs /dev/vdb rw
32 22 0:42 / /mnt/s rw - fuse.sshfs me@there: rw
not a line of mounts
33 22 0:43 - ext4
34 22 0:44 / /mnt rw
"""


def call(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", "--store", str(path), *arguments])


def wrong(path: Path) -> list[Check]:
    return [check for check in examine(path) if not check.is_ok]


@pytest.fixture
def interrupted(tmp_path: Path) -> sapwood.ArtifactKey:
    """A run whose process was killed, with one call that only its spool has."""
    code = f"""
import os, signal, sapwood
store = sapwood.open({str(tmp_path / "s.db")!r})
run = store.record()
run.agent("a").note("in the spool")
print(run.key, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return sapwood.ArtifactKey(done.stdout.strip())


def test_nothing_is_wrong_with_a_fresh_store(tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db") as store, store.record():
        assert wrong(tmp_path / "s.db") == []
    answer = call(tmp_path / "s.db", "--json")
    assert answer.exit_code == 0
    assert json.loads(answer.output)["ok"] is True


def test_an_interrupted_run_and_its_spool_are_found_and_looking_changes_nothing(
    tmp_path: Path, interrupted: sapwood.ArtifactKey
) -> None:
    before = sorted((tmp_path / "s.db-spool").iterdir())
    for _ in range(2):
        answer = call(tmp_path / "s.db")
        assert answer.exit_code == 1
        assert f"{interrupted} was interrupted" in answer.output
        assert f"sapwood doctor --seal {interrupted} --store {tmp_path / 's.db'}" in answer.output
        assert "holds 2 artifacts of a dead process" in answer.output
    assert sorted((tmp_path / "s.db-spool").iterdir()) == before


def test_an_interrupted_run_can_be_sealed_and_keeps_what_its_spool_had(
    tmp_path: Path, interrupted: sapwood.ArtifactKey
) -> None:
    assert call(tmp_path / "s.db", "--seal", interrupted.text).exit_code == 0
    assert wrong(tmp_path / "s.db") == []
    with sapwood.open(tmp_path / "s.db") as store:
        assert [row.status for row in store.runs()] == ["failed"]
        kinds = [record.kind for record in store.load(interrupted).walk()]
        assert {"Note", "ValidationError", "Seal"} <= set(kinds)
        assert store.verify(interrupted).is_ok
    assert isinstance(call(tmp_path / "s.db", "--seal", interrupted.text).exception, sapwood.RunSealed)


def test_a_run_whose_owner_lives_is_not_sealed(tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db") as store, store.record() as run:
        assert isinstance(call(tmp_path / "s.db", "--seal", run.key.text).exception, sapwood.RunBusy)


def test_an_old_sqlite_is_wrong(tmp_path: Path) -> None:
    assert not examine(tmp_path / "s.db", version=(3, 40, 1))[0].is_ok
    assert examine(tmp_path / "s.db", version=(3, 44, 6))[0].is_ok


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/var/x", "ext4"), ("/home/you/x", "xfs"), ("/home/me/with space/x", "nfs4"), ("/mnt/s/x", "fuse.sshfs")],
)
def test_the_file_system_is_the_one_mounted_nearest(path: str, kind: str) -> None:
    assert file_system_of(Path(path), MOUNTS) == kind


def test_a_network_file_system_is_wrong(tmp_path: Path) -> None:
    mounts = f"1 1 0:1 / {tmp_path} rw - nfs server:/x rw\n"
    assert "place" in [check.name for check in examine(tmp_path / "s.db", mounts=mounts) if not check.is_ok]


def test_files_that_others_can_read_are_wrong(tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db") as store, store.record():
        pass
    (tmp_path / "s.db").chmod(0o644)
    assert [check.name for check in wrong(tmp_path / "s.db")] == ["permissions"]


def test_files_in_the_spool_folder_that_nobody_will_replay_are_wrong(tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db") as store, store.record():
        pass
    folder = tmp_path / "s.db-spool"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "x.refused").touch(0o600)
    assert [check.name for check in wrong(tmp_path / "s.db")] == ["spool"]


def test_a_store_that_is_not_there_or_none_is_wrong_and_is_not_made(tmp_path: Path) -> None:
    assert [check.name for check in wrong(tmp_path / "s.db")] == ["store"]
    assert not (tmp_path / "s.db").exists()
    (tmp_path / "s.db").write_bytes(b"no database, and long enough to be looked at as one" * 100)
    (tmp_path / "s.db").chmod(0o600)
    assert [check.name for check in wrong(tmp_path / "s.db")] == ["store"]
