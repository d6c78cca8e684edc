"""Runs are stopped at random moments, again and again, and taken on: nothing recorded is repeated, nothing is lost.

One process works on several runs at once, so that one stop hits each of them somewhere else. Each has branches, a
failing try, a program, a join, a loop, a phase, documents and ingested files.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from sapwood.core.artifacts import (
    AgentRequest,
    AgentResult,
    Delivery,
    MessageStreamArtifact,
    OutcomeEvidence,
    PhaseHandoff,
)
from sapwood.core.codec import from_record
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact, UnknownArtifact
from sapwood.core.workflow import Backoff, CommandNode, Edge, JoinNode, Workflow
from sapwood.runtime.histories import Histories
from sapwood.runtime.history import History
from sapwood.runtime.session import Store
from sapwood.runtime.start import open_run
from tests.conftest import ROOT, Dose
from tests.runtime.world import Provider, agent, all_of, chain, echo, lines, make_executor, open_world, workflow
from tests.stopped import check_stopped

WAYS = ("kill", "kill and no engine", "terminate", "interrupt")
AT_ONCE = 10
CALL_S = 0.06
START_S = 1.5
MAX_STOPS = 3
ATTEMPTS = {"a": 1, "b": 2, "c": 1, "j": 2, "w": 2, "z": 1}


@pytest.mark.torture(short=2, full=300)
@pytest.mark.parametrize("way", WAYS)
def test_a_stopped_run_ends_whole(tmp_path: Path, dose: Dose, way: str) -> None:
    stops = 0
    for number, first in enumerate(range(0, dose.count, AT_ONCE)):
        folder = tmp_path / str(number)
        folder.mkdir()
        names = [f"r{place}" for place in range(first, min(first + AT_ONCE, dose.count))]
        with open_world(folder / "sapwood.db") as store:
            runs = {name: open_run(store, flow(name), {}, {}).text for name in names}
        stops += drive(folder, dose.rng, way)
        with open_world(folder / "sapwood.db") as store:
            for name, run in runs.items():
                dose.failures += [f"{way} {number} {name}: {what}" for what in wrong_with(store, folder, run, name)]
    if dose.count >= 100 and stops < dose.count // AT_ONCE:
        dose.failures.append(f"only {stops} stops: nothing was tested")


def flow(name: str) -> Workflow:
    """Return a workflow whose nodes begin with `name`, so that the log of calls tells the runs apart."""
    a, b, c, j, w, z = (f"{name}{node}" for node in ATTEMPTS)
    return workflow(
        agent(a, select="all", phase=1, output=f"docs/{a}.md", ingest=True),
        agent(b, attempts=2, backoff=Backoff(first_s=0.01)),
        CommandNode(key=c, run=("0", "built"), evidence="build"),
        JoinNode(key=j),
        agent(w, output=f"docs/{w}_<n>.md"),
        agent(z, output=f"docs/{z}.md", ingest=True),
        edges=[
            Edge(source=a, target=b),
            Edge(source=a, target=c),
            Edge(source=b, target=j),
            Edge(source=c, target=j),
            Edge(source=j, target=w),
            Edge(source=w, target=j, when="decision == 'changes_requested'", priority=1, max_loops=3),
            Edge(source=w, target=z, when="decision == 'approved'", priority=2),
        ],
    )


def drive(folder: Path, rng: random.Random, way: str) -> int:
    """Work on the runs, stop that up to three times at random moments, then let them end; return the stops."""
    stops = 0
    while True:
        before = len(lines(folder / "calls"))
        with (folder / "printed").open("ab") as printed:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.runtime.worker", str(folder), str(CALL_S)], cwd=ROOT, stderr=printed
            )
        if stops < MAX_STOPS:
            wait_for_a_moment(process, folder, before, rng)
            stop(process, way)
            stops += process.returncode != 0
        if process.wait(timeout=120) == 0:
            return stops
        check_stopped(process.returncode, folder / "printed")
        if way == "kill and no engine":
            for name in ("engine.db", "engine.db-wal", "engine.db-shm"):
                (folder / name).unlink(missing_ok=True)


def wait_for_a_moment(process: subprocess.Popen[bytes], folder: Path, before: int, rng: random.Random) -> None:
    """Wait until some moment of the process's life: in one of five cases while it starts, else while it works."""
    if rng.random() < 0.2:
        time.sleep(rng.random() * START_S)
        return
    while process.poll() is None and len(lines(folder / "calls")) == before:
        time.sleep(0.005)
    time.sleep(rng.random() * CALL_S * 20)


def stop(process: subprocess.Popen[bytes], way: str) -> None:
    signals = {"terminate": signal.SIGTERM, "interrupt": signal.SIGINT}
    process.send_signal(signals.get(way, signal.SIGKILL))
    process.wait(timeout=60)


def wrong_with(store: Store, folder: Path, run: str, name: str) -> list[str]:
    """Return everything that a stop has broken in this run."""
    with store.artifacts.read() as reader:
        row = reader.find_run(ArtifactKey(run))
        artifacts = [from_record(record) for record in reader.load(ArtifactKey(run))]
    wrong = [] if row is not None and row.status == "completed" else [f"the run is {row and row.status}"]
    wrong += [f"{finding.code}: {finding.message}" for finding in store.verify(run).findings]
    wrong += wrong_attempts(artifacts, name)
    wrong += wrong_calls(artifacts, folder, name)
    handoffs = sum(isinstance(one, PhaseHandoff) for one in artifacts)
    evidence = sum(isinstance(one, OutcomeEvidence) for one in artifacts)
    if (handoffs, evidence) != (1, 1):
        wrong.append(f"{handoffs} handoffs of phases, {evidence} pieces of evidence")
    files = [f"docs/{name}{rest}.md" for rest in ("a", "w_1", "w_2", "z")]
    files += [f"workspace/{name}{rest}.txt" for rest in ("a", "z")]
    return wrong + [f"{file} is missing" for file in files if not (folder / file).is_file()]


def wrong_attempts(artifacts: list[Artifact | UnknownArtifact], name: str) -> Iterator[str]:
    """Yield what is wrong with requests, deliveries and results: one result an attempt, in its last delivery."""
    requests = {one.key: (one.node, one.attempt) for one in artifacts if isinstance(one, AgentRequest)}
    expected = [(name + node, number + 1) for node, count in ATTEMPTS.items() for number in range(count)]
    if sorted(requests.values()) != sorted(expected):
        yield f"attempts {sorted(requests.values())}"
    deliveries = [one for one in artifacts if isinstance(one, Delivery)]
    attempt_of = {one.key: requests[parent(one)] for one in deliveries}
    results = {parent(one): attempt_of[parent(one)] for one in artifacts if isinstance(one, AgentResult)}
    if Counter(results.values()) != dict.fromkeys(requests.values(), 1):
        yield f"results {dict(Counter(results.values()))}"
    last = {attempt_of[one.key]: one for one in deliveries}  # they come in the order of their keys
    for key, attempt in results.items():
        if attempt in last and last[attempt].key != key:
            yield f"{attempt} was delivered again after its result"
    for one, other in pairwise(deliveries):
        if parent(one) == parent(other) and (other.delivery, other.interrupted) != (one.delivery + 1, one.key):
            yield f"{attempt_of[other.key]}: delivery {other.delivery} does not follow {one.delivery}"


def wrong_calls(artifacts: list[Artifact | UnknownArtifact], folder: Path, name: str) -> Iterator[str]:
    """Yield calls without a delivery, and events whose recording had returned and that are not there."""
    requests = {one.key: f"{one.node} {one.attempt}" for one in artifacts if isinstance(one, AgentRequest)}
    delivered = Counter(requests[parent(one)] for one in artifacts if isinstance(one, Delivery))
    deliveries = {one.key: requests[parent(one)] for one in artifacts if isinstance(one, Delivery)}
    recorded = Counter(deliveries[parent(one)] for one in artifacts if isinstance(one, MessageStreamArtifact))
    for what, most in ((Counter(lines(folder / "calls")), delivered), (Counter(lines(folder / "streamed")), recorded)):
        for attempt, count in what.items():
            if attempt.rpartition(" ")[0][:-1] == name and count > most[attempt]:
                yield f"{attempt}: {count} happened, {most[attempt]} are recorded"


def parent(artifact: Artifact) -> ArtifactKey:
    assert artifact.key.parent is not None
    return artifact.key.parent


# the checks see what they are there for


@pytest.mark.mutant
def test_an_executor_that_does_not_look_for_results_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look before the call, a repeated step calls again; the check above has to see it."""
    with open_world(tmp_path / "sapwood.db") as store:
        run = open_run(store, chain("a"), {}, {}).text
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
        assert lines(tmp_path / "calls") == ["a", "a"]
        found = [one for kind in (AgentRequest, Delivery, AgentResult) for one in all_of(store, run, kind)]
    assert any("delivered again" in what for what in wrong_attempts(found, ""))


@pytest.mark.mutant
def test_events_that_were_not_kept_are_caught(tmp_path: Path) -> None:
    (tmp_path / "streamed").write_text("ra 1\n")
    assert list(wrong_calls([], tmp_path, "r")) == ["ra 1: 1 happened, 0 are recorded"]
