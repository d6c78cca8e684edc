"""A process that runs one graph of fake steps: `python -m tests.engine.worker FOLDER RUN GRAPH SECONDS`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sapwood.engine.boot import boot
from tests.engine.fake import FakeSteps


def main() -> None:
    folder, run, graph, seconds = sys.argv[1:]
    steps = FakeSteps(Path(folder) / "log", json.loads(graph), seconds=float(seconds))
    with boot(Path(folder) / "engine.db", steps) as engine:
        if run != "-":
            engine.submit(run)
        steps.write("ready", run)
        if run != "-":
            engine.wait(run)
        else:
            sys.stdin.read()


if __name__ == "__main__":
    main()
