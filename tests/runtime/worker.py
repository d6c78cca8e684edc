"""A process that takes all open runs of a store to their end: `python -m tests.runtime.worker FOLDER SECONDS`.

It writes a line for every call of a provider, and one for every streamed event whose recording has returned.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from sapwood.clock import KeyFactory
from sapwood.core.events import GraphEvent, NodeThoughtDeltaEvent
from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.engine.boot import boot
from sapwood.errors import ProviderFailed
from sapwood.ingest.documents import ProjectDocuments
from tests.runtime.world import make_executor, open_world

STREAMED = 3
FILE = "```text file={node}.txt\n{node}\n```\n"


class Streaming:
    """Streams some events and answers by the node's name and attempt: `b` fails once, `w` wants changes once."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._calls = folder / "calls"
        self._streamed = folder / "streamed"
        self._seconds = seconds
        self._keys = KeyFactory()

    async def run(self, prompt: str, options: ProviderRunOptions) -> AsyncIterator[GraphEvent | ProviderResult]:
        write_line(self._calls, f"{options.node} {options.attempt}")
        for _ in range(STREAMED):
            yield NodeThoughtDeltaEvent(
                event_id=self._keys.segment(),
                node_id=options.node,
                timestamp="2026-01-01T00:00:00.000Z",
                delta_content="…",
            )
            write_line(self._streamed, f"{options.node} {options.attempt}")
            await asyncio.sleep(self._seconds / STREAMED)
        kind = options.node[-1]
        if kind == "b" and options.attempt == 1:
            raise ProviderFailed("scripted", "the first try fails")
        decision = ("changes_requested" if options.attempt == 1 else "approved") if kind == "w" else None
        report = f"report of {options.node}\n{FILE.format(node=options.node)}"
        yield ProviderResult(report=report, decision=decision)  # type: ignore[arg-type]  # one of the decisions


def write_line(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")


def terminate(_signal: int, _frame: object) -> None:
    raise SystemExit(143)


def main() -> None:
    folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
    signal.signal(signal.SIGTERM, terminate)
    documents = ProjectDocuments(folder)
    with (
        open_world(folder / "sapwood.db") as store,
        boot(
            folder / "engine.db",
            make_executor(store, Streaming(folder, seconds), documents=documents, project=folder),
        ) as engine,
    ):
        runs = [row.key.text for row in store.runs() if row.status in ("running", "interrupted")]
        for run in runs:
            engine.submit(run)
        for run in runs:
            assert engine.wait(run) == "completed"


if __name__ == "__main__":
    main()
