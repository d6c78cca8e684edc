"""Starts the engine in this process and stops it: its database, its slot, its workflows, one instance at a time.

The engine has a thread and an event loop of its own; the steps run there. Its verbs are plain calls from any thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

import sqlalchemy
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

from sapwood.engine.database import open_database, whole_migrations
from sapwood.engine.memory import give_back_large_blocks
from sapwood.engine.reaper import Reaper
from sapwood.engine.slots import Slot, exclusive
from sapwood.engine.workflows import GraphWorkflow, is_in_step, register, start
from sapwood.errors import EngineBroken, EngineBusy, RunBusy
from sapwood.ports import Steps

APPLICATION = "sapwood"
VERSION = "sapwood-engine-1"  # raised only when the order of steps in workflows.py changes; graphs are data
POLLING_S = 0.02
LOG_LEVEL = "CRITICAL"  # below it the library advertises a console; what goes wrong reaches us as errors
THREADS = 32

T = TypeVar("T")


def boot(path: Path, steps: Steps) -> Engine:
    """Start the engine on the database at `path` (`engine.db`).

    Raises EngineBusy when this process has one already, and EngineBroken when the file is of no use.
    """
    give_back_large_blocks()
    folder = path.with_suffix(".slots")
    slot = Slot(folder)
    loop = _Loop()
    try:
        with exclusive(path.with_suffix(".lock")):  # two first launches at once would both create the tables
            database = open_database(path)
            graph = loop.run(_launch(path, database, slot.name, steps))
    except BaseException:
        loop.stop()
        slot.release()
        raise
    return Engine(loop, graph, Reaper(folder, slot.name), slot, database)


class Engine:
    """Runs submitted here live in this process; `ports.Engine` says what each verb promises."""

    def __init__(
        self, loop: _Loop, graph: GraphWorkflow, reaper: Reaper, slot: Slot, database: sqlalchemy.Engine
    ) -> None:
        self._loop = loop
        self._graph = graph
        self._reaper = reaper
        self._slot = slot
        self._database = database
        self._results: dict[str, Future[str]] = {}

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def submit(self, run: str) -> None:
        if run in self._results and not self._results[run].done():
            return
        owner = self._aside(self._reaper.clear, run)
        if owner is not None:
            raise RunBusy(run, owner)
        handle = self._loop.run(start(run, self._graph, run))
        self._results[run] = self._loop.begin(handle.get_result(polling_interval_sec=POLLING_S))

    def wait(self, run: str, timeout_s: float | None = None) -> str | None:
        try:
            return self._results[run].result(timeout_s)
        except NotYet:
            return None

    def abandoned(self) -> list[str]:
        return self._aside(self._reaper.abandoned)

    def _aside(self, question: Callable[..., T], *words: str) -> T:
        """Ask where no event loop runs: the library refuses it in the caller's thread, if that one has a loop."""
        return self._loop.run(asyncio.to_thread(question, *words))

    def close(self) -> None:
        self._loop.end_all()
        DBOS.destroy(destroy_registry=True)
        self._loop.stop()
        self._database.dispose()  # dbos leaves an engine that it was given open, with its files
        self._slot.release()


async def _launch(path: Path, database: sqlalchemy.Engine, executor_id: str, steps: Steps) -> GraphWorkflow:
    """Launch dbos inside the running loop, which it adopts for everything it runs."""
    config: DBOSConfig = {
        "name": APPLICATION,
        "application_version": VERSION,
        "executor_id": executor_id,
        "serializer": DBOSPortableJSONSerializer(),  # the default is pickle: whoever writes the file would run code
        "system_database_url": database.url.render_as_string(),
        "system_database_engine": database,
        "log_level": LOG_LEVEL,
        "notification_listener_polling_interval_sec": 0.05,
        "max_executor_threads": THREADS,
    }
    try:
        DBOS(config=config)
        if executor_id != DBOS.executor_id:  # the constructor hands out the instance that is there already
            raise EngineBusy
        graph = register(steps, POLLING_S)
        with whole_migrations(database):
            DBOS.launch()
    except EngineBusy:
        database.dispose()
        raise
    except BaseException as error:
        DBOS.destroy(destroy_registry=True)
        database.dispose()
        if isinstance(error, sqlalchemy.exc.DatabaseError):
            raise EngineBroken(str(path), str(error.orig)) from error
        raise
    return graph


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_task_factory(self._task)
        self._workflows: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sapwood-engine", daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.begin(work).result()

    def end_all(self) -> None:
        """Cancel what runs, wait for its clean-up and its threads. No outcome is recorded: it stays to be continued."""
        self.run(self._end_all())

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T] | Generator[Any, None, T], **more: Any
    ) -> asyncio.Task[T]:
        task = asyncio.Task(work, loop=loop, **more)
        if not is_in_step.get():
            self._workflows.add(task)
        return task

    async def _end_all(self) -> None:
        """Cancel the workflows alone: what a step has started, a clean-up too, is that step's to end."""
        others = set(self._workflows) - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_default_executor()  # a thread that is late would find its loop closed
