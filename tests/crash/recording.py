"""A process that records below the shim: `python -m tests.crash.recording FOLDER NAME SEED [MUTANT]`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sapwood.storage import sqlite
from tests.crash.mutants import break_it
from tests.crash.workload import record_runs


def main() -> None:
    folder, name, seed, mutant = sys.argv[1:]
    break_it(mutant)
    sqlite.CHECKPOINT_PAGES = 25  # type: ignore[misc]  # so that power fails during checkpoints too
    acks = os.open(folder + ".ack", os.O_WRONLY | os.O_CREAT, 0o600)

    def acknowledge(token: str) -> None:
        os.write(acks, token.encode())

    record_runs(Path(folder) / "sapwood.db", name, int(seed), acknowledge, runs=3, scopes=4, calls=5)


if __name__ == "__main__":
    main()
