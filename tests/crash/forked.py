"""A process that records in two threads and forks all the time: `python -m tests.crash.forked FILE COUNT SEED MUTANT`.

A child tries to record through what it inherited, which must be refused; then it opens the store itself, records a run
and leaves, at once or through the whole end of the interpreter. At last the parent kills itself. Calls that returned
are acknowledged on standard output, one token a line; what went wrong is a line that begins with `problem`.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from itertools import count
from pathlib import Path

import sapwood
from sapwood.errors import StoreClosed
from sapwood.runtime.run import Run
from sapwood.runtime.scope import Agent
from sapwood.runtime.session import Store
from tests.crash.mutants import break_it
from tests.crash.workload import record_call, register

CHILD_S = 20  # a child that inherited a lock which nobody gives back waits for ever


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


def record_beside(store: Store, run: Run, stop: threading.Event) -> None:
    for scope in count():
        with run.agent(f"beside-{scope}") as agent:
            for number in range(5):
                record_call(agent, f"beside-{scope}-{number}")
                say(f"beside-{scope}-{number}")
        store.runs()
        if stop.wait(0.003):
            return


def in_child(path: Path, agent: Agent, number: int) -> None:
    try:
        agent.note("from the child")
        say(f"problem: child {number} recorded through what it inherited")
    except StoreClosed as error:
        if "forked" not in str(error):
            say(f"problem: child {number} was told {error}")
    with sapwood.open(path) as store, store.record() as run, run.agent("child") as own:
        for call in range(3):
            record_call(own, f"c{number}-{call}")
            say(f"c{number}-{call}")


def main() -> None:
    path, forks, seed, mutant = sys.argv[1:]
    break_it(mutant)
    rng, stop = random.Random(int(seed)), threading.Event()
    store = sapwood.open(Path(path))
    register(store)
    run = store.record()
    agent = run.agent("main")
    beside = threading.Thread(target=record_beside, args=(store, run, stop))
    beside.start()
    for number in range(int(forks)):
        record_call(agent, f"m{number}")
        say(f"m{number}")
        pid = os.fork()
        if pid == 0:
            signal.alarm(CHILD_S)
            try:
                in_child(Path(path), agent, number)
            except BaseException as error:
                say(f"problem: child {number} ended with {error!r}")
            if rng.random() < 0.5:
                os._exit(0)
            return  # through the end of the interpreter, with all that it closes
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            say(f"problem: child {number} did not end by itself")
        if rng.random() < 0.2:
            agent.flush()
    stop.set()
    beside.join()
    record_call(agent, "last")
    say("last")
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
