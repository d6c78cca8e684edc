"""A process in which recording is cancelled all the time: `python -m tests.crash.cancelled FILE HOW COUNT SEED MUTANT`.

HOW is `asyncio` (tasks are cancelled), `interrupt` (KeyboardInterrupt in the main thread) or `thread` (an exception is
raised in a worker). What each call and each scope end told its caller is kept and compared with what is stored. It
prints one line for each difference, and last how many cancellations there were.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import random
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import sapwood
from sapwood.errors import SapwoodError
from sapwood.runtime.run import Run
from sapwood.runtime.scope import Agent
from sapwood.runtime.session import Store
from tests.crash.mutants import break_it
from tests.crash.workload import read_store, record_call, register

CALLS = 4
TASKS = 8


@dataclass
class Told:
    """What the callers were told."""

    returned: set[str] = field(default_factory=set)
    interrupted: set[str] = field(default_factory=set)  # calls that were left by the cancellation itself
    scopes: dict[str, bool] = field(default_factory=dict)  # scope -> whether its body came to its end
    runs: list[Run] = field(default_factory=list)
    cancellations: int = 0
    problems: list[str] = field(default_factory=list)
    at_work: set[str] = field(default_factory=set)  # threads to cancel: the id of one that has left may be another's
    leaving: threading.Lock = field(default_factory=threading.Lock)


class Cancelled(BaseException):
    """Raised in a worker thread from outside."""


def record_scope_calls(agent: Agent, name: str, told: Told) -> None:
    for number in range(CALLS):
        token = f"{name}-{number}"
        told.interrupted.add(token)
        record_call(agent, token)
        told.returned.add(token)
        told.interrupted.discard(token)


# -- asyncio ----------------------------------------------------------------------------------------------------------


async def record_async(store: Store, name: str, told: Told) -> None:
    async with store.record() as run:
        told.runs.append(run)
        for scope in range(2):
            async with run.agent(f"{name}-{scope}") as agent:
                told.scopes[agent.key.text] = False
                for number in range(CALLS):
                    record_call(agent, f"{name}-{scope}-{number}")
                    told.returned.add(f"{name}-{scope}-{number}")
                    await asyncio.sleep(0)
                told.scopes[agent.key.text] = True


async def cancel_tasks(store: Store, count: int, rng: random.Random, told: Told) -> None:
    for first in itertools.count(0, TASKS):
        if told.cancellations >= count:
            return
        tasks = [asyncio.create_task(record_async(store, f"a{first + one}", told)) for one in range(TASKS)]
        for task in tasks:
            await asyncio.sleep(rng.uniform(0, 0.004))
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            told.cancellations += isinstance(outcome, asyncio.CancelledError)
            if isinstance(outcome, Exception):
                told.problems.append(f"a task ended with {outcome!r}")


# -- KeyboardInterrupt ------------------------------------------------------------------------------------------------


def interrupt_often(store: Store, count: int, rng: random.Random, told: Told) -> None:
    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    for number in itertools.count():
        if told.cancellations >= count:
            return
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0002, rng.choice((0.004, 0.012, 0.03))))
            record_sync(store, f"i{number}", told)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            told.cancellations += 1
        except SapwoodError as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            told.problems.append(f"i{number} ended with {error!r}")


def record_sync(store: Store, name: str, told: Told) -> None:
    with store.record() as run:
        told.runs.append(run)
        for scope in range(2):
            with run.agent(f"{name}-{scope}") as agent:
                record_scope_calls(agent, f"{name}-{scope}", told)


# -- threads ----------------------------------------------------------------------------------------------------------


def cancel_threads(store: Store, count: int, rng: random.Random, told: Told) -> None:
    for first in itertools.count(0, TASKS):
        if told.cancellations >= count:
            return
        names = [f"w{first + one}" for one in range(TASKS)]
        threads = {name: threading.Thread(target=record_in_thread, args=(store, name, told)) for name in names}
        told.at_work.update(names)
        for thread in threads.values():
            thread.start()
        for name, thread in threads.items():
            time.sleep(rng.uniform(0, 0.004))
            with told.leaving:
                if name in told.at_work:
                    ident = ctypes.c_ulong(thread.ident or 0)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(Cancelled))
        for thread in threads.values():
            thread.join()


def record_in_thread(store: Store, name: str, told: Told) -> None:
    try:
        record_sync(store, name, told)
    except Cancelled:
        told.cancellations += 1
    except SapwoodError as error:
        told.problems.append(f"{name} ended with {error!r}")
    with told.leaving:
        told.at_work.discard(name)


# -- what is stored ---------------------------------------------------------------------------------------------------


def differences(store: Store, told: Told) -> list[str]:
    """Return where the store and what its callers were told differ, while the process still lives."""
    found = read_store(store, allowed=("interrupted", "orphan"))
    stored = set(found.tokens)
    problems = told.problems + found.problems
    problems += [f"returned, not stored: {token}" for token in sorted(told.returned - stored)]
    problems += [f"stored, never made: {token}" for token in sorted(stored - told.returned - told.interrupted)]
    with store.artifacts.read() as reader:
        results = {record.key.parent for record in reader.load_kinds(None, ["AgentResult"])}
        for key, is_whole in told.scopes.items():
            if (sapwood.ArtifactKey(key) in results) != is_whole:
                problems.append(f"scope {key} came to its end: {is_whole}, has a result: {not is_whole}")
        for run in told.runs:
            row = reader.find_run(run.key)
            if row is None or (run.is_ended and row.status == "running"):
                problems.append(f"run {run.key} was reported as ended: {run.is_ended}, stored as {row}")
    return problems


def main() -> None:
    path, how, count, seed, mutant = sys.argv[1:]
    break_it(mutant)
    told, rng = Told(), random.Random(int(seed))
    store = sapwood.open(Path(path))
    register(store)
    if how == "asyncio":
        asyncio.run(cancel_tasks(store, int(count), rng, told))
        problems = differences(store, told)  # at once: nothing may still be under way
    else:
        {"interrupt": interrupt_often, "thread": cancel_threads}[how](store, int(count), rng, told)
        store.flush()
        problems = differences(store, told)
    store.close()
    for problem in problems:
        print(problem)
    print(told.cancellations)


if __name__ == "__main__":
    main()
