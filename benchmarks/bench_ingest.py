"""Ingest: how fast documents are parsed, and what 100 blocks cost with and without their syncs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sapwood import parse_fences
from sapwood.core.ingest_manifest import Source
from sapwood.core.ingest_settings import IngestSettings
from sapwood.core.redact import redact
from sapwood.ingest.durable import Sync, real_sync
from sapwood.ingest.ingest import ingest
from sapwood.ingest.workspace import Project

SOURCE = Source("run", "node", "graph_runtime", "unknown", "docs/x.md")
NO_SYNC = Sync(lambda _: None, lambda _: None)


def best_of(count: int, run: Callable[[], object]) -> float:
    best = 9e9
    for _ in range(count):
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return best


def parsing() -> None:
    documents = {
        "many small fences": "Prose.\n```python file=src/a.py\nx = 1\n```\n" * 100_000,
        "ordinary answers": (
            "Prose of one line.\n" * 20 + "```python file=src/a.py\n" + "x = 1  # a line\n" * 60 + "```\n"
        )
        * 10_000,
        "one 50 MB body": "```text file=a\n" + "0123456789 0123456789 0123456789 012345\n" * 1_250_000 + "```\n",
    }
    for name, document in documents.items():
        seconds = best_of(3, lambda document=document: parse_fences(document))  # type: ignore[misc]
        print(
            f"parse {name:20} {len(document) / 1e6:6.1f} MB {seconds:6.3f} s {len(document) / 1e6 / seconds:8.1f} MB/s"
        )


def writing() -> None:
    document = "".join(
        f"```text file=d{n % 10}/f{n}.txt\n{'x' * 99 + chr(10)}" + ("y" * 99 + "\n") * 101 + "```\n" for n in range(100)
    )
    for name, sync in (("without syncs", NO_SYNC), ("with syncs", real_sync())):
        with tempfile.TemporaryDirectory() as folder:
            projects = iter(range(99))

            def run(sync: Sync = sync, folder: str = folder, projects: object = projects) -> None:
                project = Path(folder) / str(next(projects))  # type: ignore[call-overload]
                project.mkdir()
                done = ingest(document, Project(project, sync=sync), SOURCE, IngestSettings())
                assert done.manifest["summary"]["written"] == 100

            print(f"100 blocks of 10 KB {name:14} {best_of(7, run) * 1000:7.1f} ms")
    with tempfile.TemporaryDirectory() as folder:
        sync = real_sync()
        assert sync.all_beside is not None
        with Project(folder) as project:
            fd = project.fd
            print(
                f"one sync of the idle file system      {best_of(7, lambda: sync.all_beside and sync.all_beside(fd)) * 1000:7.1f} ms"
            )


def redacting() -> None:
    line = (
        "2026-01-01T00:00:00Z ERROR could not write workspace/src/components/button.py: no space left on the device\n"
    )
    seconds = best_of(3, lambda: [redact(line) for _ in range(20_000)])
    print(
        f"redact ordinary lines {len(line) * 20_000 / 1e6 / seconds:6.1f} MB/s, {seconds / 20_000 * 1e6:.1f} us a line"
    )


def main() -> None:
    parsing()
    writing()
    redacting()
