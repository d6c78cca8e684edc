"""A process that records below the shim: `python -m tests.crash.recording FOLDER NAME SEED [MUTANT]`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sapwood.storage import sqlite_checkpoint, sqlite_log
from tests.crash.mutants import break_it
from tests.crash.workload import record_runs


def main() -> None:
    folder, name, seed, mutant = sys.argv[1:]
    break_it(mutant)
    # so that the power fails during checkpoints, and while the log is made longer, too
    sqlite_checkpoint.CHECKPOINT_PAGES = 25  # type: ignore[misc]
    sqlite_log.GROW_FROM_BYTES = sqlite_log.ROOM_BYTES = 32 * 1024  # type: ignore[misc]
    acks = os.open(folder + ".ack", os.O_WRONLY | os.O_CREAT, 0o600)

    def acknowledge(token: str) -> None:
        os.write(acks, token.encode())

    record_runs(Path(folder) / "sapwood.db", name, int(seed), acknowledge, runs=3, scopes=4, calls=5)


if __name__ == "__main__":
    main()
