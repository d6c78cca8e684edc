"""Each trap of the engine's library that applies to us, with a test that fails without its remedy."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
import sqlalchemy as sa
from dbos import DBOS

from sapwood.engine import boot as boot_module
from sapwood.engine import slots, workflows
from sapwood.engine.boot import VERSION, boot
from sapwood.engine.database import open_database
from sapwood.engine.slots import exclusive
from sapwood.errors import EngineBroken, EngineBusy, EngineStuck, RunBusy
from sapwood.outlast import outlast
from tests.conftest import ROOT
from tests.engine.fake import FakeSteps

RUN = "ak:01HQXK5V8RPZM4J3NHWGC7SDFG"
CHAIN = {"a": [], "b": ["a"], "c": ["b"]}

Spawn = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    """Start `tests.engine.worker` on the same folder; whoever is left at the end is killed."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(run: str, graph: dict[str, list[str]], seconds: float) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "tests.engine.worker", str(tmp_path), run, json.dumps(graph), str(seconds)]
        processes.append(subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def wait_for(is_so: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


# traps 1 and 2: the library's own engine has no WAL, and cannot launch on an old SQLite


def test_the_database_knows_the_time_with_fractions_on_every_sqlite(tmp_path: Path) -> None:
    database = open_database(tmp_path / "engine.db")
    with database.connect() as connection:
        shown = connection.execute(sa.text("select unixepoch('subsec')")).scalar_one()
    database.dispose()
    assert shown == pytest.approx(time.time(), abs=5)


@pytest.mark.parametrize("name", ["why?", "a%41", "a#b"])
def test_the_database_is_in_its_folder_whatever_that_is_called(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    with boot(folder / "engine.db", FakeSteps(folder / "log", CHAIN)) as engine:
        engine.submit(RUN)
        assert engine.wait(RUN, 20) == "completed"
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (folder / "engine.db").stat().st_size > 0


def test_the_database_is_opened_for_one_writer_and_many_readers(tmp_path: Path) -> None:
    database = open_database(tmp_path / "engine.db")
    with database.connect() as connection:
        shown = [
            connection.execute(sa.text(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        ]
        assert connection.connection.dbapi_connection.isolation_level == "IMMEDIATE"  # type: ignore[union-attr]
    database.dispose()
    assert shown == ["wal", 1, 30000, 1]
    assert (tmp_path / "engine.db").stat().st_mode & 0o777 == 0o600


# trap 3: two live processes under one executor id run the same call twice


def test_a_live_run_is_not_stolen_by_a_second_process(tmp_path: Path, spawn: Spawn) -> None:
    assert starts_with_a_second_process(tmp_path, spawn, watch_s=2.0) == 1


@pytest.mark.mutant
def test_with_one_name_for_all_processes_a_live_run_is_stolen(
    tmp_path: Path, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same_name(owner: str) -> slots.Slot:
        slot = slots.Slot(tmp_path / "other.slots")
        slot.name = owner
        return slot

    def take_the_name(_folder: Path) -> slots.Slot:
        with closing(sqlite3.connect(tmp_path / "engine.db")) as connection:
            return same_name(connection.execute("select executor_id from workflow_status").fetchone()[0])

    monkeypatch.setattr(boot_module, "Slot", take_the_name)
    assert starts_with_a_second_process(tmp_path, spawn, watch_s=20.0) == 2


def starts_with_a_second_process(folder: Path, spawn: Spawn, watch_s: float) -> int:
    spawn(RUN, {"a": []}, watch_s + 10.0)
    steps = FakeSteps(folder / "log", {"a": []})
    wait_for(lambda: steps.facts("start"))
    with boot(folder / "engine.db", steps) as engine:
        assert engine.abandoned() == []
        deadline = time.monotonic() + watch_s  # the library looks for what it takes for its own once a second
        while time.monotonic() < deadline and len(steps.facts("start")) == 1:
            time.sleep(0.02)
    return len(steps.facts("start"))


def test_a_run_of_a_live_process_is_refused_with_its_owner(tmp_path: Path, spawn: Spawn) -> None:
    process = spawn(RUN, {"a": []}, 30.0)
    steps = FakeSteps(tmp_path / "log", {"a": []})
    wait_for(lambda: steps.facts("start"))
    with boot(tmp_path / "engine.db", steps) as engine:
        with pytest.raises(RunBusy, match=RUN) as refused:
            engine.submit(RUN)
        assert refused.value.owner.startswith(f"{process.pid}-")


# trap 4: nobody takes over from the dead, unless we do, and the heirs may have died too


def test_a_dead_process_has_an_heir_even_when_the_first_heir_died_too(tmp_path: Path, spawn: Spawn) -> None:
    steps = FakeSteps(tmp_path / "log", CHAIN)
    first = spawn(RUN, CHAIN, 0.4)
    wait_for(lambda: steps.facts("result"))
    wait_for(lambda: len(steps.facts("start")) == 2)
    first.kill()
    first.wait()
    heir = spawn("-", CHAIN, 0.0)  # starts, takes nothing over, dies
    wait_for(lambda: len(steps.facts("ready")) == 2)
    heir.kill()
    heir.wait()
    with boot(tmp_path / "engine.db", steps) as engine:
        assert engine.abandoned() == [RUN]
        engine.submit(RUN)
        assert engine.wait(RUN) == "completed"
        assert engine.abandoned() == []
    assert steps.results(RUN) == {"a.1", "b.1", "c.1"}
    assert len(steps.facts("result")) == 3, "a recorded attempt was repeated"
    assert len(steps.facts("start")) == 4, "only the call in flight is made again"


def test_without_its_database_a_run_goes_on_from_what_is_recorded(tmp_path: Path, spawn: Spawn) -> None:
    steps = FakeSteps(tmp_path / "log", CHAIN)
    process = spawn(RUN, CHAIN, 0.4)
    wait_for(lambda: len(steps.facts("start")) == 2)
    process.kill()
    process.wait()
    for name in ("engine.db", "engine.db-wal", "engine.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with boot(tmp_path / "engine.db", steps) as engine:
        engine.submit(RUN)
        assert engine.wait(RUN) == "completed"
    assert len(steps.facts("result")) == 3


# trap 5: a parent that waits on the same limited places as its children


def test_one_place_for_calls_is_enough_for_a_whole_graph(tmp_path: Path) -> None:
    steps = FakeSteps(tmp_path / "log", {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}, places=1)
    with boot(tmp_path / "engine.db", steps) as engine:
        engine.submit(RUN)
        assert engine.wait(RUN, 20) == "completed"


@pytest.mark.mutant
def test_a_node_that_holds_a_place_while_it_waits_for_its_call_never_ends(tmp_path: Path) -> None:
    class Holding(FakeSteps):
        async def claim(self, run: str, node: str, attempt: int) -> None:
            await self.places.acquire()

    with boot(tmp_path / "engine.db", Holding(tmp_path / "log", CHAIN, places=1)) as engine:
        engine.submit(RUN)
        assert engine.wait(RUN, 0.5) is None


# trap 6: a version computed from the source strands every open run with the next edit


def test_the_version_is_ours_and_stands_with_every_workflow(tmp_path: Path) -> None:
    run_one(tmp_path)
    with closing(sqlite3.connect(tmp_path / "engine.db")) as connection:
        versions = connection.execute("select distinct application_version from workflow_status").fetchall()
    assert versions == [(VERSION,)]
    assert VERSION == "sapwood-engine-1"


# trap 7: two first launches at once


def test_only_one_process_at_a_time_launches(tmp_path: Path) -> None:
    started = threading.Event()

    def launch() -> None:
        with boot(tmp_path / "engine.db", FakeSteps(tmp_path / "log", {})):
            started.set()

    with exclusive(tmp_path / "engine.lock"):
        thread = threading.Thread(target=launch)
        thread.start()
        assert not started.wait(0.3)
        assert not (tmp_path / "engine.db").exists()
    thread.join(10)
    assert started.is_set()


def test_three_first_launches_at_once_all_succeed(tmp_path: Path, spawn: Spawn) -> None:
    processes = [spawn("-", {}, 0.0) for _ in range(3)]
    steps = FakeSteps(tmp_path / "log", {})
    wait_for(lambda: len(steps.facts("ready")) == 3)
    for process in processes:
        process.communicate(b"")
        assert process.returncode == 0


# trap 8: pickle by default


def test_nothing_in_the_database_is_pickled(tmp_path: Path) -> None:
    run_one(tmp_path)
    with closing(sqlite3.connect(tmp_path / "engine.db")) as connection:
        forms = connection.execute("select distinct serialization from workflow_status").fetchall()
        inputs = connection.execute("select inputs from workflow_input").fetchall()
        outputs = connection.execute("select output from operation_outputs where output is not null").fetchall()
    assert forms == [("portable_json",)]
    assert inputs
    assert outputs
    for (text,) in inputs:
        assert json.loads(text)["positionalArgs"] == [RUN], "the run's key is the only argument"
    for (text,) in outputs:
        json.loads(text)


# trap 10: one instance per process


def test_a_second_engine_in_one_process_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    steps = FakeSteps(tmp_path / "log", CHAIN)
    with boot(tmp_path / "engine.db", steps) as engine:
        with pytest.raises(EngineBusy):
            boot(tmp_path / "second.db", steps)
        engine.submit(RUN)
        assert engine.wait(RUN, 20) == "completed"
    with boot(tmp_path / "second.db", steps) as engine:
        engine.submit(RUN + "2")
        assert engine.wait(RUN + "2", 20) == "completed"


def test_after_a_launch_that_failed_the_next_one_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no disk")

    steps = FakeSteps(tmp_path / "log", CHAIN)
    with monkeypatch.context() as patch:
        patch.setattr(DBOS, "launch", fail)
        with pytest.raises(OSError, match="no disk"):
            boot(tmp_path / "engine.db", steps)
    assert list((tmp_path / "engine.slots").iterdir()) == []
    run_one(tmp_path)


# trap 12: no transaction is held over a call


def test_while_a_call_is_in_flight_others_can_write(tmp_path: Path) -> None:
    steps = FakeSteps(tmp_path / "log", {"a": []}, seconds=0.5)
    with boot(tmp_path / "engine.db", steps) as engine:
        engine.submit(RUN)
        wait_for(lambda: steps.facts("start"))
        with closing(sqlite3.connect(tmp_path / "engine.db", timeout=0.2)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
        assert engine.wait(RUN) == "completed"
        assert not steps.facts("adopted")


# trap 13: everything polls once a second by default


def test_a_hop_takes_milliseconds(tmp_path: Path) -> None:
    assert seconds_for_branches(tmp_path) < 2.5


@pytest.mark.mutant
def test_with_the_default_polling_the_same_graph_takes_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot_module, "POLLING_S", 1.0)
    assert seconds_for_branches(tmp_path) > 2.9


def seconds_for_branches(folder: Path) -> float:
    """Time three pairs of branches, one after the other, each branch 0.1 s."""
    graph: dict[str, list[str]] = {"a1": [], "a2": [], "b1": ["a1", "a2"], "b2": ["a1", "a2"]}
    graph |= {"c1": ["b1", "b2"], "c2": ["b1", "b2"]}
    with boot(folder / "engine.db", FakeSteps(folder / "log", graph, seconds=0.1)) as engine:
        started = time.monotonic()
        engine.submit(RUN)
        assert engine.wait(RUN, 20) == "completed"
        return time.monotonic() - started


# trap 14: whoever waits must not hold a thread


def test_sixty_waiting_calls_hold_no_threads(tmp_path: Path) -> None:
    steps = FakeSteps(tmp_path / "log", {f"gate{n}": [] for n in range(60)}, seconds=30.0)
    before = threading.active_count()
    with boot(tmp_path / "engine.db", steps) as engine:
        engine.submit(RUN)
        wait_for(lambda: len(steps.facts("start")) == 60)
        assert threading.active_count() - before < boot_module.THREADS + 15
        started = time.monotonic()
    assert time.monotonic() - started < 5, "closing does not wait for them"


# trap 16: it talks


def test_the_engine_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_one(tmp_path)
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("", "")


# trap 18: a child id without the attempt returns the first visit's result for ever


def test_a_loop_of_three_visits_does_the_work_three_times(tmp_path: Path) -> None:
    steps = FakeSteps(tmp_path / "log", {"a": [], "b": ["a"]}, visits={"a": 3})
    with boot(tmp_path / "engine.db", steps) as engine:
        engine.submit(RUN)
        assert engine.wait(RUN, 20) == "completed"
    assert [line[3] for line in steps.facts("start", RUN) if line[2] == "a"] == [1, 2, 3]


@pytest.mark.mutant
def test_with_child_ids_that_lack_the_attempt_a_loop_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = workflows.start

    async def start(workflow_id: str, workflow: object, run: str) -> object:
        same = workflow_id.replace("a.2", "a.1").replace("a.3", "a.1")
        return await real(same, workflow, run)  # type: ignore[arg-type]

    monkeypatch.setattr(workflows, "start", start)
    steps = FakeSteps(tmp_path / "log", {"a": []}, visits={"a": 3})
    with boot(tmp_path / "engine.db", steps) as engine:
        engine.submit(RUN)
        with pytest.raises(EngineStuck, match=r"a\.2"):
            engine.wait(RUN, 20)
    assert len(steps.facts("start")) == 1


# the rules of replay


def test_step_names_carry_the_node_and_the_attempt(tmp_path: Path) -> None:
    steps = FakeSteps(tmp_path / "log", CHAIN)
    with boot(tmp_path / "engine.db", steps) as engine:
        engine.submit(RUN)
        assert engine.wait(RUN, 20) == "completed"
        names = [step["function_name"] for step in DBOS.list_workflow_steps(f"{RUN}.b.1")]
        called = [step["function_name"] for step in DBOS.list_workflow_steps(f"{RUN}.b.1/call")]
    assert names == ["claim:b#1", "sapwood.call", "DBOS.getResult"]
    assert called == ["call:b#1"]


def test_a_replay_after_a_crash_gives_each_node_its_own_result(tmp_path: Path, spawn: Spawn) -> None:
    """Two steps a branch, both branches cut off between their steps: results must not change places."""
    graph: dict[str, list[str]] = {"left": [], "right": [], "left2": ["left"], "right2": ["right"]}
    steps = FakeSteps(tmp_path / "log", graph)
    process = spawn(RUN, graph, 0.3)
    wait_for(lambda: len(steps.facts("start")) == 4)
    process.kill()
    process.wait()
    with boot(tmp_path / "engine.db", steps) as engine:
        engine.submit(RUN)
        assert engine.wait(RUN, 20) == "completed"
    assert sorted(f"{line[2]}.{line[3]}" for line in steps.facts("result")) == [
        "left.1",
        "left2.1",
        "right.1",
        "right2.1",
    ]


def test_closing_leaves_a_run_to_be_continued_here_or_elsewhere(tmp_path: Path) -> None:
    steps = FakeSteps(tmp_path / "log", CHAIN, seconds={"b": 30.0})
    with boot(tmp_path / "engine.db", steps) as engine:
        engine.submit(RUN)
        wait_for(lambda: len(steps.facts("start")) == 2)
    steps.seconds = 0.0
    with boot(tmp_path / "engine.db", steps) as engine:
        assert engine.abandoned() == [RUN]
        engine.submit(RUN)
        assert engine.wait(RUN, 20) == "completed"
    assert len(steps.facts("result")) == 3


def test_closing_waits_for_threads_at_work_and_none_reports_to_a_loop_that_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def commit() -> None:
        begun.set()
        time.sleep(0.3)
        ended.set()

    class InAThread(FakeSteps):
        async def call(self, run: str, node: str, attempt: int) -> str:
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, commit))
            return await super().call(run, node, attempt)

    with boot(tmp_path / "engine.db", InAThread(tmp_path / "log", CHAIN)) as engine:
        engine.submit(RUN)
        assert begun.wait(20)
    assert ended.is_set()
    assert "Event loop is closed" not in caplog.text


def test_closing_leaves_what_a_step_started_to_be_ended_by_that_step(tmp_path: Path) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def clean_up() -> None:
        begun.set()
        await asyncio.sleep(0.2)
        ended.set()

    class Careful(FakeSteps):
        async def call(self, run: str, node: str, attempt: int) -> str:
            await outlast(asyncio.ensure_future(clean_up()))
            return await super().call(run, node, attempt)

    with boot(tmp_path / "engine.db", Careful(tmp_path / "log", CHAIN)) as engine:
        engine.submit(RUN)
        assert begun.wait(20)
    assert ended.is_set()


def test_a_step_that_cannot_be_recorded_ends_the_run_with_its_error_and_can_be_tried_again(tmp_path: Path) -> None:
    class Failing(FakeSteps):
        is_broken = True

        async def call(self, run: str, node: str, attempt: int) -> str:
            if self.is_broken and node == "b":
                raise OSError("disk full")
            return await super().call(run, node, attempt)

    steps = Failing(tmp_path / "log", CHAIN)
    with boot(tmp_path / "engine.db", steps) as engine:
        engine.submit(RUN)
        with pytest.raises(OSError, match="disk full"):
            engine.wait(RUN, 20)
        steps.is_broken = False
        engine.submit(RUN)
        assert engine.wait(RUN, 20) == "completed"
    assert len(steps.facts("result")) == 3


def run_one(folder: Path) -> None:
    with boot(folder / "engine.db", FakeSteps(folder / "log", CHAIN)) as engine:
        engine.submit(RUN)
        assert engine.wait(RUN, 20) == "completed"


class Died(Exception):
    """The process ended here."""


def die_over_the_migrations(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Boot an engine whose process ends while its tables are made: after some, before the others."""

    def open_and_die(path: Path) -> sa.Engine:
        database = open_database(path)
        made: list[str] = []

        def count(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
            made.extend([statement] if statement.startswith("CREATE TABLE") else [])
            if len(made) > 3:
                raise Died

        sa.event.listen(database, "before_cursor_execute", count)
        return database

    with monkeypatch.context() as patch:
        patch.setattr(boot_module, "open_database", open_and_die)
        with pytest.raises(Died):
            boot(folder / "engine.db", FakeSteps(folder / "log", CHAIN))


def test_who_dies_while_the_tables_are_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    die_over_the_migrations(tmp_path, monkeypatch)
    run_one(tmp_path)


@pytest.mark.mutant
def test_tables_made_one_by_one_stay_half_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot_module, "whole_migrations", lambda _database: nullcontext())
    die_over_the_migrations(tmp_path, monkeypatch)
    with pytest.raises(EngineBroken, match="already exists"):
        run_one(tmp_path)


def test_a_file_that_is_no_database_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "engine.db").write_text("not a database, whatever its name says")
    with pytest.raises(EngineBroken, match="remove it, nothing is lost"):
        run_one(tmp_path)
    (tmp_path / "engine.db").unlink()
    run_one(tmp_path)


def test_a_slot_is_gone_when_its_process_is(tmp_path: Path) -> None:
    slot = slots.Slot(tmp_path)
    with slots.hold_if_dead(tmp_path, slot.name) as is_dead:
        assert not is_dead
    slot.release()
    assert list(tmp_path.iterdir()) == []
    with slots.hold_if_dead(tmp_path, slot.name) as is_dead:
        assert is_dead
    with slots.hold_if_dead(tmp_path / "nowhere", "x") as is_dead:
        assert is_dead
    assert os.getpid() == int(slot.name.split("-")[0])


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed on Linux only")
def test_closing_leaves_no_file_of_the_engine_open(tmp_path: Path) -> None:
    gc.disable()  # which would close what was forgotten
    try:
        run_one(tmp_path)
        still_open = [str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    finally:
        gc.enable()
    assert [name for name in still_open if name.startswith(str(tmp_path))] == []
