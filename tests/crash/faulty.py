"""A process below the shim in which chosen calls fail: `python -m tests.crash.faulty FOLDER PAGE FAULT COUNT SEED MUTANT`.

For each chosen N it records into a fresh file while the Nth call fails (and all after it, for a full disk), lets calls
through again, goes on recording with the same store, and checks from scratch: first a copy as a killed process would
have left it, then the closed store. It prints one line for each thing that is wrong, and last how many calls there are
and how often one failed.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import sapwood
from sapwood.errors import SapwoodError
from sapwood.runtime.run import Run
from sapwood.runtime.session import Store
from tests.crash.mutants import break_it
from tests.crash.shim import FOR_EVER, Fault, Faults, On
from tests.crash.workload import read_back, record_call, register

SCOPES = 3
CALLS = 4
ALLOWED = ("interrupted", "orphan")  # a scope whose end was refused has no result above its reports
ON = {Fault.NO_SPACE: On.WRITE | On.TRUNCATE | On.NAME, Fault.SHORT_WRITE: On.WRITE, Fault.INTERRUPTED: On.WRITE}


class Recording:
    """Records into one file as a patient caller would, and notes what returned and what was refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done: set[str] = set()
        self.refused: set[str] = set()
        self.untyped: list[str] = []
        self.errors: list[str] = []
        self.store: Store | None = None
        self.number = 0
        self.is_looked_at = False
        self.after_refusal: list[str] = []  # what a process killed one call after a refusal would have lost

    def attempt(self, action: Callable[[], object]) -> bool:
        """Do it; a typed error is an answer, any other is a finding."""
        try:
            action()
        except SapwoodError as error:
            self.errors.append(f"{type(error).__name__}: {error}")
            return False
        except Exception as error:
            self.untyped.append(f"not a typed error: {error!r}")
            return False
        return True

    def open(self) -> None:
        self.store = sapwood.open(self.path)

    def record(self) -> None:
        """Record one run, going on after every refusal."""
        if self.store is None:
            self.attempt(self.open)
        store = self.store
        if store is not None and self.attempt(lambda: register(store)):
            self.attempt(lambda: self._record_run(store))

    def _record_run(self, store: Store) -> None:
        with store.record(config={}, inputs={}) as run:
            for scope in range(SCOPES):
                self.attempt(lambda scope=scope: self._record_scope(run, scope))  # type: ignore[misc]

    def _record_scope(self, run: Run, scope: int) -> None:
        with run.agent(f"node-{scope}", request={}) as agent:
            for _ in range(CALLS):
                token = f"t{self.number}"
                self.number += 1
                made = self.attempt(lambda token=token: record_call(agent, token))  # type: ignore[misc]
                (self.done if made else self.refused).add(token)
                if made and len(self.refused) == 1 and not self.is_looked_at:
                    self.is_looked_at = True
                    self.after_refusal = killed_here(self, "killed in the scope")

    def problems_in(self, path: Path, when: str) -> list[str]:
        if not path.exists():
            return [f"{when}: the file is lost"] if self.done else []
        found = read_back(path, ALLOWED)
        problems = [f"{when}: {problem}" for problem in found.problems]
        if lost := self.done - set(found.tokens):
            problems.append(f"{when}: {len(lost)} calls that returned are lost")
        if kept := self.refused & set(found.tokens):
            problems.append(f"{when}: {len(kept)} calls that were refused are stored")
        return problems


def try_nth(folder: Path, faults: Faults, fault: Fault, nth: int) -> tuple[int, list[str]]:
    """Return how many calls failed, and what was wrong, when the Nth call of a recording failed."""
    recording = start(folder)
    faults.set(fault, ON.get(fault, On.ALL), first=nth, span=FOR_EVER if fault is Fault.NO_SPACE else 1)
    recording.record()
    failed = faults.failed
    faults.clear()
    problems = ["refused although no call failed"] if not failed and recording.errors else []
    problems += recording.after_refusal + killed_here(recording, "killed after the fault")
    recording.errors.clear()
    recording.record()
    problems += [f"refused although the calls succeed again: {error}" for error in recording.errors]
    problems += killed_here(recording, "killed later")
    if recording.store is not None:
        recording.attempt(recording.store.close)
    problems += recording.problems_in(recording.path, "closed") + recording.untyped
    return failed, [f"{fault.name} at call {nth}: {problem}" for problem in problems]


def killed_here(recording: Recording, when: str) -> list[str]:
    """Look at a copy, made by another process: an `open()` in this one would drop the locks of SQLite."""
    folder = recording.path.parent
    copy = folder.with_name("killed")
    shutil.rmtree(copy, ignore_errors=True)
    subprocess.run(["cp", "-r", str(folder), str(copy)], check=True)
    return recording.problems_in(copy / recording.path.name, when)


def start(folder: Path) -> Recording:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return Recording(folder / "sapwood.db")


def main() -> None:
    folder, page, name, count, seed, mutant = sys.argv[1:]
    break_it(mutant)
    faults, fault, rng = Faults(Path(page)), Fault[name], random.Random(int(seed))
    recording = start(Path(folder))
    faults.set(Fault.NONE, ON.get(fault, On.ALL))
    recording.record()
    calls, failures = faults.calls, 0
    if recording.store is not None:
        recording.store.close()
    every = range(1, calls + 1)
    for nth in every if int(count) >= calls else sorted(rng.sample(every, int(count))):
        failed, problems = try_nth(Path(folder), faults, fault, nth)
        failures += failed > 0
        for problem in problems:
            print(problem)
    print(calls, failures)


if __name__ == "__main__":
    main()
