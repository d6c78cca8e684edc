"""A process that takes a stored run to its end: `python -m tests.runtime.worker FOLDER RUN SECONDS`."""

from __future__ import annotations

import sys
from pathlib import Path

from sapwood.engine.boot import boot
from tests.runtime.world import Provider, echo, make_executor, open_world


def main() -> None:
    folder, run, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    provider = Provider(echo, folder / "calls", seconds)
    with (
        open_world(folder / "sapwood.db") as store,
        boot(folder / "engine.db", make_executor(store, provider)) as engine,
    ):
        engine.submit(run)
        engine.wait(run)


if __name__ == "__main__":
    main()
