"""Steps over a list of lines in a file: what a store is to the engine, small enough to read in a test."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class FakeSteps:
    """A graph given as `{node: [nodes it waits for]}`; `visits` says how often a node is to be visited.

    Every fact is one line of `log`, written with one call, so that it survives kill -9 and other processes see it.
    """

    def __init__(
        self,
        log: Path,
        graph: dict[str, list[str]],
        *,
        visits: dict[str, int] | None = None,
        seconds: dict[str, float] | float = 0.0,
        places: int = 1000,
    ) -> None:
        self.log = log
        self.graph = graph
        self.visits = visits or {}
        self.seconds = seconds
        self.places = asyncio.Semaphore(places)

    def write(self, *fact: object) -> None:
        file = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, (json.dumps([*fact, os.getpid()]) + "\n").encode())
        os.close(file)

    def facts(self, kind: str, run: str | None = None) -> list[list[Any]]:
        if not self.log.exists():
            return []
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if line[0] == kind and run in (None, line[1])]

    def results(self, run: str) -> set[str]:
        return {f"{line[2]}.{line[3]}" for line in self.facts("result", run)}

    async def route(self, run: str, running: Sequence[str]) -> list[str]:
        done = self.results(run)
        ready = []
        for node, waits_for in self.graph.items():
            wanted = self.visits.get(node, 1)
            visit = next((n for n in range(1, wanted + 1) if f"{node}.{n}" not in done), None)
            is_free = all(f"{other}.{self.visits.get(other, 1)}" in done for other in waits_for)
            if visit is not None and is_free and f"{node}.{visit}" not in running:
                ready.append(f"{node}.{visit}")
        return ready

    async def claim(self, run: str, node: str, attempt: int) -> None:
        pass

    async def call(self, run: str, node: str, attempt: int) -> str:
        if f"{node}.{attempt}" in self.results(run):
            self.write("adopted", run, node, attempt)
            return "completed"
        async with self.places:
            self.write("start", run, node, attempt)
            await asyncio.sleep(self.seconds if isinstance(self.seconds, float) else self.seconds.get(node, 0.0))
        self.write("result", run, node, attempt)
        return "completed"

    async def finish(self, run: str) -> str:
        self.write("end", run)
        return "completed"
