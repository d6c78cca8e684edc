"""Each remedy against a trap, taken away: the check of the trap goes red. And the traps whose remedy is to stay away."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from dbos import DBOS, SetWorkflowID
from dbos._serialization import DBOSDefaultSerializer

from sapwood.core.artifacts import AgentResult, Delivery
from sapwood.core.keys import ArtifactKey
from sapwood.engine import boot as boot_module
from sapwood.engine import database, workflows
from sapwood.engine.boot import boot
from sapwood.engine.reaper import Reaper
from sapwood.engine.slots import Slot
from sapwood.errors import EngineBusy
from sapwood.runtime.session import Store
from tests.conftest import ROOT
from tests.engine import test_traps as traps
from tests.engine.fake import FakeSteps
from tests.engine.test_traps import CHAIN, RUN, Spawn, run_one, wait_for
from tests.runtime.world import Provider, all_of, begin, chain, echo, make_executor, open_world

spawn = traps.spawn

Patch = pytest.MonkeyPatch


# trap 1


@pytest.mark.mutant
@pytest.mark.skipif(sqlite3.sqlite_version_info >= (3, 42), reason="this SQLite knows unixepoch('subsec') itself")
def test_without_its_own_unixepoch_an_old_sqlite_has_no_time(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(database, "FIRST_WITH_SUBSEC", (0, 0))
    with pytest.raises((AssertionError, TypeError)):
        traps.test_the_database_knows_the_time_with_fractions_on_every_sqlite(tmp_path)


# trap 2


@pytest.mark.mutant
def test_without_the_pragmas_the_journal_is_a_rollback_journal(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(database, "PRAGMAS", ())
    with pytest.raises(AssertionError):
        traps.test_the_database_is_opened_for_one_writer_and_many_readers(tmp_path)


# trap 4


@pytest.mark.mutant
def test_whoever_remembers_only_the_last_dead_one_finds_nothing(
    tmp_path: Path, spawn: Spawn, monkeypatch: Patch
) -> None:
    dead: list[str] = []

    def is_last_dead(_self: Reaper, owner: str | None) -> bool:
        names = sorted((tmp_path / "engine.slots").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        dead[:] = [path.stem for path in names if not path.stem.startswith(f"{own_pid()}-")]
        return owner == dead[-1]

    monkeypatch.setattr(Reaper, "_is_dead", is_last_dead)
    with pytest.raises(AssertionError):
        traps.test_a_dead_process_has_an_heir_even_when_the_first_heir_died_too(tmp_path, spawn)
    assert len(dead) == 2


def own_pid() -> int:
    return os.getpid()


# trap 6


def left_by_another_version(folder: Path, monkeypatch: Patch) -> FakeSteps:
    steps = FakeSteps(folder / "log", CHAIN, seconds={"b": 30.0})
    with monkeypatch.context() as patch:
        patch.setattr(boot_module, "VERSION", "sapwood-engine-0")
        with boot(folder / "engine.db", steps) as engine:
            engine.submit(RUN)
            wait_for(lambda: len(steps.facts("start")) == 2)
    steps.seconds = 0.0
    return steps


def test_a_run_of_another_version_is_continued(tmp_path: Path, monkeypatch: Patch) -> None:
    steps = left_by_another_version(tmp_path, monkeypatch)
    with boot(tmp_path / "engine.db", steps) as engine:
        engine.submit(RUN)
        assert engine.wait(RUN, 20) == "completed"


@pytest.mark.mutant
def test_left_to_the_library_a_run_of_another_version_is_stranded(tmp_path: Path, monkeypatch: Patch) -> None:
    steps = left_by_another_version(tmp_path, monkeypatch)
    monkeypatch.setattr(Reaper, "clear", lambda _self, _run: None)
    with boot(tmp_path / "engine.db", steps) as engine:
        engine.submit(RUN)
        assert engine.wait(RUN, 2.0) is None


# trap 7


@pytest.mark.mutant
def test_without_the_lock_processes_launch_at_the_same_time(tmp_path: Path, monkeypatch: Patch) -> None:
    @contextmanager
    def open_door(_path: Path) -> Iterator[None]:
        yield

    monkeypatch.setattr(boot_module, "exclusive", open_door)
    with pytest.raises(AssertionError):
        traps.test_only_one_process_at_a_time_launches(tmp_path)
    time.sleep(0.5)  # the launch of that test ends by itself


# trap 8


@pytest.mark.mutant
def test_with_the_default_serializer_the_database_is_full_of_pickles(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(boot_module, "DBOSPortableJSONSerializer", lambda: DBOSDefaultSerializer)
    with pytest.raises(AssertionError):
        traps.test_nothing_in_the_database_is_pickled(tmp_path)


# trap 9: the library's rate limiter is coarse and counts claims, not calls. Remedy: nothing of ours is queued


def test_nothing_goes_through_a_queue_of_the_library(tmp_path: Path) -> None:
    run_one(tmp_path)
    assert queued(tmp_path) == []


@pytest.mark.mutant
def test_a_call_that_is_queued_is_noticed(tmp_path: Path, monkeypatch: Patch) -> None:
    real = workflows.start

    async def start(workflow_id: str, workflow: Any, run: str) -> Any:
        if not workflow_id.endswith(workflows.CALL_SUFFIX):
            return await real(workflow_id, workflow, run)
        await DBOS.register_queue_async("limited", concurrency=1)
        with SetWorkflowID(workflow_id):
            return await DBOS.enqueue_workflow_async("limited", workflow, run)

    monkeypatch.setattr(workflows, "start", start)
    run_one(tmp_path)
    assert len(queued(tmp_path)) == len(CHAIN)


def queued(folder: Path) -> list[Any]:
    with closing(sqlite3.connect(folder / "engine.db")) as connection:
        return connection.execute("select queue_name from workflow_status where queue_name is not null").fetchall()


# trap 10


@pytest.mark.mutant
def test_without_the_question_whose_it_is_a_second_engine_takes_the_first_ones_instance(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    class Same(Slot):
        """Every slot says that it has the first one's name."""

        names: ClassVar[list[str]] = []

        def __init__(self, folder: Path) -> None:
            super().__init__(folder)
            self.names.append(self.name)
            self.name = self.names[0]

    monkeypatch.setattr(boot_module, "Slot", Same)
    steps = FakeSteps(tmp_path / "log", CHAIN)
    with boot(tmp_path / "engine.db", steps):
        try:
            second = boot(tmp_path / "second.db", steps)
        except EngineBusy:
            pytest.fail("it was noticed all the same")
        except Exception:  # the library may fail in the middle of it, in its own words
            return
        assert not (tmp_path / "second.db-wal").exists(), "it runs on the first one's file"
        second._loop.stop()


# trap 11: resetting the library's database deletes or empties the whole file it is in. Remedy: a file of its own


def test_a_reset_of_the_engine_loses_nothing_of_the_record(tmp_path: Path) -> None:
    with open_world(tmp_path / "sapwood.db") as store:
        run = begin(store, chain("a", "b"))
        stop_in_the_middle(store, tmp_path / "engine.db", run)
        before = count(store)
        DBOS.reset_system_database(system_database_url=f"sqlite:///{tmp_path / 'engine.db'}")
        assert not (tmp_path / "engine.db").exists()
        assert count(store) == before > 0
        with boot(tmp_path / "engine.db", make_executor(store, Provider(echo))) as engine:
            engine.submit(run)
            assert engine.wait(run, 20) == "completed"
        assert len(all_of(store, run, AgentResult)) == 2


def test_no_command_resets_the_engine() -> None:
    from sapwood.cli.main import COMMANDS

    assert "reset" not in COMMANDS
    sources = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    assert not any("reset_system_database" in source for source in sources)


@pytest.mark.mutant
def test_in_one_file_with_the_record_a_reset_takes_the_record_too(tmp_path: Path) -> None:
    shared = tmp_path / "sapwood.db"
    with open_world(shared) as store:
        begin(store, chain("a", "b"))
    with boot(shared, FakeSteps(tmp_path / "log", CHAIN)):
        pass
    with open_world(shared) as store:
        assert count(store) > 0
    DBOS.reset_system_database(system_database_url=f"sqlite:///{shared}")
    assert not shared.exists()


def stop_in_the_middle(store: Store, engine_file: Path, run: str) -> None:
    class StopsAtB(Provider):
        async def run(self, prompt: str, options: Any) -> Any:
            self._seconds = 30.0 if prompt == "b" else 0.0
            async for item in super().run(prompt, options):
                yield item

    with boot(engine_file, make_executor(store, StopsAtB(echo))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, Delivery)) == 2)


def count(store: Store) -> int:
    with store.artifacts.read() as reader:
        return reader.count()


# trap 12


@pytest.mark.mutant
def test_a_call_inside_a_transaction_blocks_every_writer(tmp_path: Path, monkeypatch: Patch) -> None:
    real = FakeSteps.call

    async def call(self: FakeSteps, run: str, node: str, attempt: int) -> str:
        with closing(sqlite3.connect(tmp_path / "engine.db", isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            status = await real(self, run, node, attempt)
            connection.rollback()
        return status

    monkeypatch.setattr(FakeSteps, "call", call)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        traps.test_while_a_call_is_in_flight_others_can_write(tmp_path)


# trap 14


@pytest.mark.mutant
def test_calls_that_wait_in_threads_keep_each_other_from_starting(tmp_path: Path, monkeypatch: Patch) -> None:
    class Blocking(FakeSteps):
        async def call(self, run: str, node: str, attempt: int) -> str:
            return await asyncio.to_thread(self._block, run, node, attempt)

        def _block(self, run: str, node: str, attempt: int) -> str:
            self.write("start", run, node, attempt)
            time.sleep(0.5)
            self.write("result", run, node, attempt)
            return "completed"

    graph: dict[str, list[str]] = {f"gate{number}": [] for number in range(60)}
    steps = Blocking(tmp_path / "log", graph)
    with boot(tmp_path / "engine.db", steps) as engine:
        engine.submit(RUN)
        wait_for(lambda: len(steps.facts("start")) == 60)
    before = steps.log.read_text().partition('["result"')[0]
    assert before.count('["start"') < 60


# trap 15: the library cannot filter by attributes on SQLite. Remedy: an index of runs of our own, in the store


def test_runs_are_listed_by_status_without_the_engine(tmp_path: Path) -> None:
    with open_world(tmp_path / "sapwood.db") as store:
        done, left = begin(store, chain("a")), begin(store, chain("a", "b"))
        with boot(tmp_path / "engine.db", make_executor(store, Provider(echo))) as engine:
            engine.submit(done)
            assert engine.wait(done, 20) == "completed"
        for path in tmp_path.glob("engine.db*"):
            path.unlink()
        assert [row.key for row in store.runs(status="completed")] == [ArtifactKey(done)]
        assert [row.key for row in store.runs(status="running")] == [ArtifactKey(left)]
        assert list(tmp_path.glob("engine.db*")) == []


@pytest.mark.mutant
def test_asked_for_attributes_the_library_refuses(tmp_path: Path) -> None:
    steps = FakeSteps(tmp_path / "log", CHAIN)
    with boot(tmp_path / "engine.db", steps), pytest.raises(Exception, match="not supported on SQLite"):
        DBOS.list_workflows(attributes={"status": "completed"})


# trap 16


@pytest.mark.mutant
def test_at_its_own_log_level_the_library_talks(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from sapwood.engine import boot; from tests.engine.fake import FakeSteps\n"
        "boot.LOG_LEVEL = 'INFO'; folder = Path(sys.argv[1])\n"
        "boot.boot(folder / 'engine.db', FakeSteps(folder / 'log', {})).close()"
    )
    words = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr != ""


# trap 17: a packaged PostgreSQL that widens directory permissions as root. Remedy: it is not used


def test_no_packaged_database_server_is_installed_with_us() -> None:
    wanted = [ROOT / "pyproject.toml", *(ROOT / "requirements").glob("*.txt")]
    assert len(wanted) == 3
    assert [path.name for path in wanted if re.search("pgserver", path.read_text())] == []


# the list


def test_every_trap_is_in_the_list_and_every_test_it_names_is_there() -> None:
    text = (ROOT / "docs/engine-traps.md").read_text()
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", text, re.M)]
    assert numbers == list(range(1, 19))
    folders = [ROOT / "tests" / name for name in ("engine", "runtime", "workflows")]
    known = {name for folder in folders for path in folder.glob("*.py") for name in names_in(path)}
    named = re.findall(r"`(test_\w+)`", text)
    assert len(named) >= 18
    assert [name for name in named if name not in known] == []


def names_in(path: Path) -> list[str]:
    return re.findall(r"^def (test_\w+)", path.read_text(), re.M)
