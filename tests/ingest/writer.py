"""Ingests one document after another until it is killed, or kills itself at its Nth sync.

`python -m tests.ingest.writer PROJECT FIRST_NUMBER [DIES_AT_SYNC] [mutant]`
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count

from sapwood.core.ingest_manifest import Source
from sapwood.core.ingest_settings import IngestSettings
from sapwood.ingest.durable import Sync
from sapwood.ingest.ingest import ingest
from sapwood.ingest.staging import Staging
from sapwood.ingest.workspace import Project


def document(number: int) -> str:
    """Return a document of files of its own and one that every document writes."""
    own = "".join(f"```text file=n{number}/{block}.txt\n{number} {'x' * 200 * block}\n```\n" for block in range(8))
    return own + f"```text file=same.txt\n{number}\n```\n"


def dying_sync(at: int) -> Sync:
    """Return a sync that never comes back from its `at`-th call."""
    calls = count(1)

    def sync(_: int) -> None:
        if next(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return Sync(sync, sync)


def main() -> None:
    project, first, *more = sys.argv[1:]
    sync = dying_sync(int(more[0])) if more else None
    if "mutant" in more:
        Staging._rename = lambda self, staged: None  # type: ignore[method-assign]
    print("ready", flush=True)
    for number in count(int(first)):
        source = Source(f"run{number % 3}", f"node{number}", "graph_runtime", "unknown", "docs/x.md")
        ingest(document(number), Project(project, sync=sync), source, IngestSettings())


if __name__ == "__main__":
    main()
