"""A run is killed at random moments, again and again, and taken on: nothing recorded is repeated, nothing is lost."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from sapwood.core.artifacts import AgentRequest, AgentResult, Delivery
from sapwood.core.codec import from_record
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.workflow import Edge
from sapwood.runtime.history import Histories, History
from sapwood.runtime.start import open_run
from tests.conftest import ROOT, Dose
from tests.runtime.world import Provider, agent, echo, lines, make_executor, open_world, workflow

NODES = ("a", "b", "c", "d", "e")
CALL_S = 0.08
MAX_KILLS = 3


@pytest.mark.torture(short=6, full=300)
@pytest.mark.parametrize("way", ["kill", "kill and no engine", "terminate and interrupt"])
def test_a_killed_run_ends_whole(tmp_path: Path, dose: Dose, way: str) -> None:
    for number in range(dose.count if dose.count > 6 else 2):  # three ways share the short dose
        folder = tmp_path / str(number)
        folder.mkdir()
        run = start_run(folder)
        kills = drive(folder, run, dose.rng, way)
        dose.failures += [f"{way} {number} after {kills} kills: {what}" for what in wrong_with(folder, run)]


def start_run(folder: Path) -> str:
    branch = workflow(
        agent("a", select="all"),
        *(agent(name) for name in NODES[1:]),
        edges=[
            Edge(source="a", target="b"),
            Edge(source="a", target="c"),
            Edge(source="b", target="d"),
            Edge(source="c", target="d"),
            Edge(source="d", target="e"),
        ],
    )
    with open_world(folder / "sapwood.db") as store:
        return open_run(store, branch, {}, {}).text


def drive(folder: Path, run: str, rng: random.Random, way: str) -> int:
    """Run it, kill it up to three times at a random moment after its first call, then let it end."""
    kills = 0
    while True:
        before = len(lines(folder / "calls"))
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.worker", str(folder), run, str(CALL_S)],
            cwd=ROOT,
            stderr=subprocess.DEVNULL,
        )
        if kills < MAX_KILLS:
            while process.poll() is None and len(lines(folder / "calls")) == before:
                time.sleep(0.005)
            time.sleep(rng.random() * CALL_S * 4)
            stop(process, rng, way)
            kills += process.returncode != 0
        if process.wait(timeout=60) == 0:
            return kills
        if way == "kill and no engine":
            for name in ("engine.db", "engine.db-wal", "engine.db-shm"):
                (folder / name).unlink(missing_ok=True)


def stop(process: subprocess.Popen[bytes], rng: random.Random, way: str) -> None:
    if way == "terminate and interrupt":
        process.send_signal(rng.choice([signal.SIGTERM, signal.SIGINT]))
    else:
        process.kill()
    process.wait(timeout=60)


def wrong_with(folder: Path, run: str) -> list[str]:
    with open_world(folder / "sapwood.db") as store, store.artifacts.read() as reader:
        row = reader.find_run(ArtifactKey(run))
        kinds = [AgentRequest.__name__, AgentResult.__name__, Delivery.__name__]
        found = [from_record(record) for record in reader.load_kinds(ArtifactKey(run), kinds)]
    wrong = [] if row is not None and row.status == "completed" else [f"the run is {row and row.status}"]
    requests = {one.key: one.node for one in found if isinstance(one, AgentRequest)}
    deliveries = {one.key: requests[parent(one)] for one in found if isinstance(one, Delivery)}
    delivered_to = {parent(one): deliveries[parent(one)] for one in found if isinstance(one, AgentResult)}
    results = Counter(deliveries[parent(one)] for one in found if isinstance(one, AgentResult))
    delivered, called = Counter(deliveries.values()), Counter(lines(folder / "calls"))
    if sorted(requests.values()) != sorted(NODES):
        wrong.append(f"attempts {sorted(requests.values())}")
    if results != dict.fromkeys(NODES, 1):
        wrong.append(f"results {dict(results)}")
    if any(called[node] > delivered[node] for node in NODES):
        wrong.append(f"{dict(called)} calls in {dict(delivered)} deliveries")
    last = {node: key for key, node in sorted(deliveries.items())}
    again = [key for key, node in delivered_to.items() if key != last[node]]
    return wrong + [f"{key}: its attempt was delivered again after its result" for key in again]


def parent(artifact: Artifact) -> ArtifactKey:
    assert artifact.key.parent is not None
    return artifact.key.parent


@pytest.mark.mutant
def test_an_executor_that_does_not_look_for_results_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look before the call, a repeated step calls again; the check above has to see it."""
    run = start_run(tmp_path)
    store = open_world(tmp_path / "sapwood.db")
    steps = make_executor(store, Provider(echo, tmp_path / "calls"))

    async def twice() -> None:
        assert await steps.route(run, []) == ["a.1"]
        await steps.claim(run, "a", 1)
        await steps.call(run, "a", 1)
        await steps.call(run, "a", 1)

    asyncio.run(twice())
    assert lines(tmp_path / "calls") == ["a"]
    real = Histories.load

    def forgetful(self: Histories, name: str) -> History:
        history = real(self, name)
        for attempt in history.attempts["a"]:
            attempt.result = None
        return history

    monkeypatch.setattr(Histories, "load", forgetful)
    asyncio.run(steps.call(run, "a", 1))
    store.close()
    assert lines(tmp_path / "calls") == ["a", "a"]
    assert any("delivered again" in what for what in wrong_with(tmp_path, run))
