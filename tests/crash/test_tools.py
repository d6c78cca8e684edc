"""The crash tools themselves: a log that misses a call, or a replay that is too kind, would prove nothing."""

from __future__ import annotations

import random
from pathlib import Path

import apsw
import pytest

from tests.crash.shim import Faults, build_shim, under_shim
from tests.crash.writelog import Disk, Luck, read_log

PLAIN = """
import os, sys
folder = sys.argv[1]
spot = os.open(folder, os.O_RDONLY)
first = os.open(folder + "/first", os.O_RDWR | os.O_CREAT, 0o600)
os.write(first, b"a" * 700); os.fsync(first); os.fsync(spot)
os.write(first, b"b" * 700); os.pwrite(first, b"c" * 10, 0); os.writev(first, [b"d", b"e"]); os.pwritev(first, [b"f" * 20, b"g" * 30], 1350)
with open(folder + "/second", "w") as second:
    second.write("unsynced")
os.rename(folder + "/second", folder + "/third")
os.ftruncate(first, 1380)
"""

SQLITE = """
import os, sys, apsw
folder, level = sys.argv[1:]
acks = os.open(folder + ".ack", os.O_WRONLY | os.O_CREAT, 0o600)
db = apsw.Connection(folder + "/x.db")
db.execute("pragma journal_mode=wal"); db.execute("pragma synchronous=" + level)
db.execute("create table t(n integer primary key, filler blob)")
for n in range(40):
    db.execute("begin immediate"); db.execute("insert into t values(?, randomblob(900))", (n,)); db.execute("commit")
    os.write(acks, b"%d\\n" % n)
"""


def record(tmp_path: Path, script: str, *arguments: str) -> tuple[Path, Path]:
    folder, log = tmp_path / "live", tmp_path / "log"
    with under_shim(build_shim(tmp_path), folder, "-c", script, str(folder), *arguments, log=log) as child:
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    return folder, log


def cut(folder: Path, log: Path, target: Path, luck: Luck, seed: int = 0) -> dict[str, bytes]:
    disk = Disk(folder)
    for event in read_log(log):
        disk.pass_by(event)
    disk.write_after_cut(target, luck, random.Random(seed))
    return {path.name: path.read_bytes() for path in target.iterdir()}


def test_with_all_luck_the_replay_is_what_the_process_left(tmp_path: Path) -> None:
    folder, log = record(tmp_path, PLAIN)
    left = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(left) == {"first", "third"}
    assert cut(folder, log, tmp_path / "cut", Luck.ALL) == left


def test_without_luck_only_what_was_synced_is_there(tmp_path: Path) -> None:
    folder, log = record(tmp_path, PLAIN)
    assert cut(folder, log, tmp_path / "cut", Luck.NONE) == {"first": b"a" * 700}


def test_a_torn_write_is_torn_at_sectors(tmp_path: Path) -> None:
    folder, log = record(tmp_path, PLAIN)
    seen = {cut(folder, log, tmp_path / f"cut{seed}", Luck.TORN, seed)["first"] for seed in range(20)}
    assert len(seen) > 3
    for content in seen:
        assert content[10:700] == b"a" * 690
        for start, stop in ((700, 1024), (1024, 1300)):
            assert len(set(content[start:stop])) <= 1


def losses(tmp_path: Path, level: str) -> int:
    folder, log = record(tmp_path, SQLITE, level)
    rng, lost, disk = random.Random(1), 0, Disk(folder)
    for number, event in enumerate(read_log(log)):
        disk.pass_by(event)
        if rng.random() < 0.7 or not disk.acknowledged:
            continue
        target = tmp_path / f"cut{number}"
        disk.write_after_cut(target, rng.choice(list(Luck)), rng)
        with apsw.Connection(str(target / "x.db")) as db:
            assert db.execute("pragma integrity_check").get == "ok"
            has_table = db.execute("select count(*) from sqlite_schema").get
            stored = {n for (n,) in db.execute("select n from t")} if has_table else set()
        db.close()
        lost += not {int(n) for n in disk.acknowledged} <= stored
    return lost


@pytest.mark.mutant
def test_the_power_cut_takes_what_sqlite_did_not_sync_and_leaves_what_it_did(tmp_path: Path) -> None:
    assert losses(tmp_path / "full", "full") == 0
    assert losses(tmp_path / "normal", "normal") > 5


FAULTY = """
import os, sys
sys.path.insert(0, ".")
from pathlib import Path
from tests.crash.shim import Fault, Faults, On
folder = sys.argv[1]
faults = Faults(Path(sys.argv[2]))
spot = os.open(folder + "/x", os.O_RDWR | os.O_CREAT, 0o600)
def attempt(what):
    try: return what()
    except OSError as error: return error.strerror
for fault, on in ((Fault.NO_SPACE, On.WRITE), (Fault.IO_ERROR, On.SYNC), (Fault.SHORT_WRITE, On.WRITE)):
    faults.set(fault, on, first=2, span=1)
    print([attempt(lambda: os.write(spot, b"1234")) for _ in range(3)], attempt(lambda: os.fsync(spot)), attempt(lambda: os.fsync(spot)))
faults.clear()
print(os.write(spot, b"1234"), faults.calls)
"""


def test_the_chosen_call_fails_and_no_other(tmp_path: Path) -> None:
    page = Faults(tmp_path / "page").path
    folder = tmp_path / "live"
    with under_shim(build_shim(tmp_path), folder, "-c", FAULTY, str(folder), str(page), faults=page) as child:
        out, errors = child.communicate(timeout=60)
    assert out.splitlines() == [
        "[4, 'No space left on device', 4] None None",
        "[4, 4, 4] None Input/output error",
        "[4, 2, 4] None None",
        "4 1",
    ], errors


def test_without_a_compiler_the_crash_tests_fail_and_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="need a C compiler"):
        build_shim(tmp_path)
