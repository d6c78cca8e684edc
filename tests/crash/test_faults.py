"""A disk that is full, failing or read-only: typed errors, nothing half written, earlier data intact, and on we go."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import sapwood
from sapwood import ArtifactKey, KeyFactory, hash_bytes
from sapwood.core.record import Record
from sapwood.runtime.spool import Call, Spool
from tests.conftest import Dose
from tests.crash.full_store import build_store
from tests.crash.shim import Fault, Faults, build_shim, under_shim


def fail_calls(tmp_path: Path, fault: Fault, count: int, seed: int, mutant: str = "") -> tuple[int, list[str]]:
    """Return how many calls were made to fail, one in each recording, and what was wrong."""
    folder, page = tmp_path / "live", Faults(tmp_path / "page").path
    command = ["-m", "tests.crash.faulty", str(folder), str(page), fault.name, str(count), str(seed), mutant]
    with under_shim(build_shim(tmp_path), folder, *command, faults=page) as child:
        out, errors = child.communicate(timeout=3000)
    assert child.returncode == 0, errors
    *problems, last = out.splitlines()
    calls, failures = map(int, last.split())
    assert calls > 20, "the shim saw too few calls"
    assert failures >= min(count, calls) * 0.9, "too few calls failed"
    return failures, problems


@pytest.mark.parametrize(
    "fault",
    [fault for fault in Fault if fault not in (Fault.NONE, Fault.READ_ONLY)],
    ids=lambda fault: fault.name.lower(),
)
@pytest.mark.torture(short=8, full=10_000)  # 10,000 is more than there are: every call fails once
def test_the_nth_call_fails_and_nothing_that_returned_is_lost(tmp_path: Path, dose: Dose, fault: Fault) -> None:
    dose.count, problems = fail_calls(tmp_path, fault, dose.count, dose.seed)
    dose.failures += problems


@pytest.mark.mutant
def test_a_recorder_that_forgets_what_it_could_not_commit_shows(tmp_path: Path) -> None:
    _, problems = fail_calls(tmp_path, Fault.IO_ERROR, 12, 1, "forgets_on_error")
    assert any("are lost" in problem for problem in problems)


@pytest.mark.mutant
def test_a_spool_that_leaves_its_torn_end_shows(tmp_path: Path) -> None:
    _, problems = fail_calls(tmp_path, Fault.SHORT_WRITE, 20, 1, "keeps_torn_end")
    assert any("are lost" in problem for problem in problems)


READ_ONLY = """
import sys
from pathlib import Path
import sapwood
from sapwood.app import open_store
from tests.crash.shim import Fault, Faults
path, page, run = sys.argv[1:]
faults = Faults(Path(page))
faults.set(Fault.READ_ONLY)
with open_store(path, create=False) as store:
    print(len(store.load(run)), store.verify().is_ok, len(store.reconstruct(run).prompts))
    for call in (store.record, store.flush, lambda: store.templates.register("tpl.a.b", "text")):
        try:
            call()
        except sapwood.SapwoodError as error:
            print(type(error).__name__)
faults.clear()
with sapwood.open(path) as store, store.record() as run:
    pass
print("recorded")
"""


def test_a_read_only_file_can_be_read_and_refuses_the_rest(tmp_path: Path) -> None:
    folder, page = tmp_path / "live", Faults(tmp_path / "page").path
    folder.mkdir()
    built = build_store(folder / "s.db")
    run, late = next(iter(built.heads)), KeyFactory().child(ArtifactKey(built.open_run))
    spool = Spool(folder / "s.db-spool", "killed")
    spool.write(Call([Record(late, "ToolOutput", b"1", hash_bytes(b"1"))]))
    spool.close(keep=True)
    arguments = ("-c", READ_ONLY, str(folder / "s.db"), str(page), run)
    with under_shim(build_shim(tmp_path), folder, *arguments, faults=page) as child:
        out, errors = child.communicate(timeout=60)
    assert out.splitlines() == ["21 True 1", *["StoreUnwritable"] * 3, "recorded"], errors
    with sapwood.open(folder / "s.db") as store:
        assert len(store.load(late)) == 1  # what a killed process left waited for the first start that could write


HOT_LOG = """
import sys
from pathlib import Path
import sapwood
from sapwood.app import open_store
from tests.crash.shim import Fault, Faults
Faults(Path(sys.argv[2])).set(Fault.READ_ONLY)
try:
    open_store(sys.argv[1], create=False)
except sapwood.SapwoodError as error:
    print(error)
"""


def test_a_read_only_file_with_a_log_beside_it_is_refused_rather_than_read_without_its_end(tmp_path: Path) -> None:
    folder, page = tmp_path / "live", Faults(tmp_path / "page").path
    folder.mkdir()
    with sapwood.open(tmp_path / "s.db") as store:
        store.record()
        subprocess.run(["cp", str(tmp_path / "s.db"), str(tmp_path / "s.db-wal"), str(folder)], check=True)
    with under_shim(build_shim(tmp_path), folder, "-c", HOT_LOG, str(folder / "s.db"), str(page), faults=page) as child:
        out, errors = child.communicate(timeout=60)
    assert "part of it is in its -wal file" in out, errors
