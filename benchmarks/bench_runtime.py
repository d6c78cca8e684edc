"""What a run costs beside its providers: the executor on the engine and a real store, with answers that come at once.

`python -m benchmarks runtime`
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.runtime.world import Provider, agent, chain, echo, make_executor, open_world, workflow

from sapwood.core.workflow import Edge, JoinNode, SpawnNode, Workflow
from sapwood.engine.boot import Engine, boot
from sapwood.runtime.session import Store
from sapwood.runtime.start import open_run


def main() -> None:
    with engine_for(Provider(echo, seconds=1.0)) as (store, engine):
        flow = workflow(agent("left"), agent("right"), edges=[])
        print(f"two branches of 1 s: {run_all(store, engine, [flow]):.2f} s (bar 1.6)")
    with engine_for(Provider(echo)) as (store, engine):
        names = [f"n{number}" for number in range(20)]
        print(f"a chain of 20: {run_all(store, engine, [chain(*names)]) * 50:.1f} ms a node (bar 40)")
        print(f"200 branches and a join: {run_all(store, engine, [fan(200)]):.1f} s (bar 15)")
        print(f"200 children of a spawn and a join: {run_all(store, engine, [spawned(200)]):.1f} s (bar 15)")
        print(f"64 runs of 20 nodes: {run_all(store, engine, [chain(*names)] * 64):.1f} s, all complete")
    shown = subprocess.run(
        [sys.executable, "-m", "tests.runtime.memory_worker", "100"], check=True, capture_output=True, text=True
    )
    print(f"100 nodes of 5 MB each: {float(shown.stdout):.0f} MB more memory (bar 50)")


@contextmanager
def engine_for(provider: Provider) -> Iterator[tuple[Store, Engine]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        open_world(Path(folder) / "sapwood.db") as store,
        boot(Path(folder) / "engine.db", make_executor(store, provider)) as engine,
    ):
        yield store, engine


def run_all(store: Store, engine: Engine, flows: list[Workflow]) -> float:
    """Return the seconds until all of them, started at once, have completed."""
    runs = [open_run(store, flow, {}, {}).text for flow in flows]
    started = time.perf_counter()
    for run in runs:
        engine.submit(run)
    assert {engine.wait(run) for run in runs} == {"completed"}
    return time.perf_counter() - started


def spawned(count: int) -> Workflow:
    node = SpawnNode(key="spawn", each=agent("spawn"), items=tuple(range(count)), max_items=count)
    return workflow(node, JoinNode(key="join"), edges=[Edge(source="spawn", target="join")])


def fan(count: int) -> Workflow:
    names = [f"c{number}" for number in range(count)]
    edges = [Edge(source="plan", target=name) for name in names] + [Edge(source=name, target="join") for name in names]
    return workflow(agent("plan", select="all"), *map(agent, names), JoinNode(key="join"), edges=edges)
