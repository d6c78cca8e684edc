"""Prints how many MB a chain of nodes adds that hand on 5 MB each: `python -m tests.runtime.memory_worker COUNT`.

A second word makes the executor keep what it has recorded.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.core.record import Record
from sapwood.engine.boot import boot
from sapwood.runtime.start import open_run
from tests.runtime.world import Provider, chain, make_executor, open_world

MEGABYTE = 1024 * 1024


def main() -> None:
    flow = chain(*(f"n{number}" for number in range(int(sys.argv[1]))))
    with (
        tempfile.TemporaryDirectory() as folder,
        open_world(Path(folder) / "sapwood.db") as store,
        boot(Path(folder) / "engine.db", make_executor(store, Provider(large))) as engine,
    ):
        before = peak_bytes()
        held: list[Record] = []
        if len(sys.argv) > 2:
            store.subscribe(held.extend)
        run = open_run(store, flow, {}, {}).text
        engine.submit(run)
        assert engine.wait(run) == "completed"
        print((peak_bytes() - before) / MEGABYTE)


def large(prompt: str, _options: ProviderRunOptions) -> ProviderResult:
    return ProviderResult(report=prompt + "x" * (5 * MEGABYTE))


def peak_bytes() -> int:
    """Return the most that this program ever held; getrusage would count what its parent held before it was started."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    main()
