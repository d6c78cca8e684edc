"""A process that records while its file is touched from inside: `python -m tests.crash.behind_the_back FILE HOW MUTANT`.

HOW is `nothing`, `store` (a second store on the same file is opened and closed) or `plain` (`open()` and `close()`, which
drops the locks of SQLite: the next process that closes the database takes itself for the last one and removes the log).
After that another process opens and closes the file. Each call that returned is told on standard output, each scope end
that was refused as `refused NAME`. At last the process kills itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import sapwood
from sapwood.errors import SapwoodError
from sapwood.runtime.run import Run
from tests.crash.mutants import break_it
from tests.crash.workload import record_call, register

LOOK = "import sapwood, sys; sapwood.open(sys.argv[1]).close()"
LOOK_WITH_AN_OLD_SQLITE = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("pragma wal_checkpoint(truncate)").fetchall()
connection.close()  # here it takes itself for the last one, and removes the log; a newer one is more careful
for end in ("-wal", "-shm"):
    if os.path.exists(sys.argv[1] + end):
        os.unlink(sys.argv[1] + end)
"""


def record_scopes(run: Run, name: str, scopes: int) -> None:
    for scope in range(scopes):
        try:
            with run.agent(f"{name}-{scope}") as agent:
                for number in range(3):
                    record_call(agent, f"{name}-{scope}-{number}")
                    os.write(1, f"{name}-{scope}-{number}\n".encode())
        except SapwoodError as error:
            os.write(1, f"refused {type(error).__name__}\n".encode())


def touch(path: Path, how: str) -> None:
    if how == "plain":
        with path.open("rb") as file:
            file.read(16)
    elif how == "store":
        sapwood.open(path).close()


def main() -> None:
    path, how, mutant = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    break_it(mutant)
    store = sapwood.open(path)
    register(store)
    run = store.record()
    record_scopes(run, "before", 5)
    touch(path, how)
    look = LOOK_WITH_AN_OLD_SQLITE if how == "plain" else LOOK
    subprocess.run([sys.executable, "-c", look, str(path)], check=True)
    record_scopes(run, "after", 10)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
