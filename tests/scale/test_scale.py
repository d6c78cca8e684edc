"""Large runs: a page, a subtree and a check cost what they cost in small ones; nothing is held in memory.

Doses are artifacts. `make test` takes a small one to see that the programme works; its bars on time are held in the
full dose, where the machine has nothing else to do.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sapwood
from sapwood.core.artifacts import InputArtifacts, Note
from sapwood.core.keys import MAX_DEPTH, ArtifactKey
from sapwood.ports import Reader
from sapwood.runtime.run import Run
from sapwood.runtime.session import Store
from tests.conftest import IS_FULL, Dose

PAGE_MS = 50.0
VERIFY_MB = 500
CHILDREN_A_STEP = 9


def best_ms(call: Callable[[], object], tries: int = 5) -> float:
    """Return the shortest of a few tries: the time of the work, not of its neighbours on this machine."""
    found = []
    for _ in range(tries):
        started = time.perf_counter()
        call()
        found.append((time.perf_counter() - started) * 1000)
    return min(found)


def record_steps(run: Run, artifacts: int) -> None:
    """Record agents with their tool calls until there are that many artifacts."""
    for step in range(artifacts // CHILDREN_A_STEP):
        with run.agent(f"agent_{step % 7}", request={"step": step}) as agent:
            agent.tool_call("search", input={"query": f"q {step}"}, output={"rows": [step, step + 1]})
            agent.tool_call("read", input={"path": f"src/{step}.py"}, output={"text": "x" * 200})
            agent.report(f"report {step}")


def seconds_an_artifact(path: Path, artifacts: int) -> float:
    started = time.process_time()
    with sapwood.open(path) as store, store.record() as run:
        record_steps(run, artifacts)
    return (time.process_time() - started) / artifacts  # until all of it is in the file, not only in the log


@pytest.fixture
def large(tmp_path: Path, dose: Dose) -> Iterator[tuple[Store, Run]]:
    with sapwood.open(tmp_path / "s.db") as store:
        with store.record() as run:
            record_steps(run, dose.count)
        yield store, run


def page_times(reader: Reader, run: ArtifactKey, agents: ArtifactKey, place: ArtifactKey) -> dict[str, float]:
    return {
        "page": best_ms(lambda: list(reader.glance(run, after=place, limit=200))),
        "level": best_ms(lambda: list(reader.glance(agents, after=place, limit=200, depth=1))),
        "children": best_ms(lambda: list(reader.child_keys(agents, after=place, limit=200))),
        "subtree": best_ms(lambda: list(reader.load(place))),
    }


@pytest.mark.torture(short=5_000, full=1_000_000)
def test_any_page_and_any_subtree_of_a_large_run_come_at_once(large: tuple[Store, Run], dose: Dose) -> None:
    store, run = large
    agents = run.groups["AgentExecutionArtifacts"]
    with store.artifacts.read() as reader:
        keys = [outline.key for outline in reader.outline(run.key, ["AgentRequest"])]
        places = [keys[0], keys[len(keys) // 2], keys[-1], *dose.rng.choices(keys, k=5)]
        for place in places:
            times = page_times(reader, run.key, agents, place)
            dose.failures += [f"{name} took {took:.1f} ms" for name, took in times.items() if took > PAGE_MS]
            assert len(list(reader.load(place))) == CHILDREN_A_STEP
    if IS_FULL:
        print(f"pages of a run of {dose.count}: {times}")


CHECK = """
import pathlib, resource, sys, sapwood

def peak_kb():
    status = pathlib.Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(status.read_text().split("VmHWM:")[1].split()[0])  # getrusage counts what the parent held at the fork

with sapwood.open(sys.argv[1]) as store:
    before = peak_kb()
    found = store.verify(store.runs()[0].key)
    peak = peak_kb()
print(found.artifacts, int(found.is_ok), peak // 1024, (peak - before) // 1024)
"""


@pytest.mark.torture(short=5_000, full=1_000_000)
def test_verify_reads_a_large_run_with_constant_memory(large: tuple[Store, Run], dose: Dose) -> None:
    store, _run = large
    store.close()
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHECK, store.artifacts.location], capture_output=True, text=True, check=True
    )
    artifacts, is_ok, peak_mb, added_mb = map(int, done.stdout.split())
    assert is_ok
    assert artifacts >= dose.count // CHILDREN_A_STEP * CHILDREN_A_STEP
    if peak_mb >= VERIFY_MB:
        dose.failures.append(f"verify took {peak_mb} MB")
    if IS_FULL:
        print(
            f"verify of {artifacts}: {time.perf_counter() - started:.0f} s, {peak_mb} MB at most, {added_mb} MB added"
        )


@pytest.mark.torture(short=2_000, full=1_000_000)
def test_an_artifact_of_a_large_run_costs_what_one_of_a_small_run_costs(tmp_path: Path, dose: Dose) -> None:
    few = min(10_000, dose.count // 4)
    small = min(seconds_an_artifact(tmp_path / f"small{number}.db", few) for number in range(3))
    large = seconds_an_artifact(tmp_path / "large.db", dose.count)
    if IS_FULL:
        print(f"{dose.count}: {large * 1e6:.1f} us an artifact, {large / small:.2f} times that of a small run")
    if large > (1.3 if IS_FULL else 2.5) * small:
        dose.failures.append(f"{large / small:.2f} times the cost of a small run")


@pytest.mark.torture(short=1, full=20)
def test_a_chain_of_64_levels_works_and_the_65th_is_refused(tmp_path: Path, dose: Dose) -> None:
    for number in range(dose.count):
        with sapwood.open(tmp_path / f"{number}.db") as store:
            with store.record() as run:
                agents: list[Any] = [run.agent("level")]
                while agents[-1].key.depth < MAX_DEPTH:
                    agents.append(agents[-1].agent("level"))
                with pytest.raises(sapwood.KeyTooDeep):
                    agents[-1].agent("level")
                run.flush()
            assert max(record.key.depth for record in store.load(run.key).walk()) == MAX_DEPTH
            assert store.verify(run.key).is_ok
            with store.artifacts.read() as reader:
                assert [found.key for found in reader.load(agents[-1].key)] == [agents[-1].key]


@pytest.mark.torture(short=2_000, full=100_000)
def test_one_parent_may_have_very_many_children(tmp_path: Path, dose: Dose) -> None:
    with sapwood.open(tmp_path / "s.db") as store:
        with store.record() as run, run.agent("parent") as agent:
            for number in range(dose.count):
                agent.tool_call("x", input=number)
        with store.artifacts.read() as reader:
            assert sum(1 for _ in reader.child_keys(agent.key)) == dose.count + 1
            middle = next(iter(reader.child_keys(agent.key, limit=1)))
            took = best_ms(lambda: list(reader.glance(agent.key, after=middle, limit=200, depth=1)))
        assert store.verify(run.key).is_ok
    if took > PAGE_MS:
        dose.failures.append(f"a page took {took:.1f} ms")


@pytest.mark.torture(short=8, full=100)
def test_a_huge_payload_goes_in_and_comes_out_with_its_exact_bytes(tmp_path: Path, dose: Dose) -> None:
    """The dose is in MiB."""
    text = os.urandom(dose.count * 1024 * 512).hex()
    with sapwood.open(tmp_path / "s.db") as store:
        with store.record(inputs={"huge": text}) as run, run.agent("a") as agent:
            agent.tool_call("read", output={"text": text})
            said = agent.report(text)
        with store.artifacts.read() as reader:
            report = reader.find(said)
            shown = best_ms(lambda: list(reader.glance(agent.key, limit=200)))
        assert report is not None
        assert report.content == text.encode()
        outputs = [record.content for record in store.load(run.key).of_kind("ToolOutput")]
        assert outputs == [b'{"text":"%s"}' % text.encode()]
        assert store.verify(run.key).is_ok
    if shown > PAGE_MS and IS_FULL:
        dose.failures.append(f"showing a page with it took {shown:.1f} ms")


def test_groups_and_notes_published_one_by_one_make_a_large_run_too(tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db") as store, store.record() as run:
        group = InputArtifacts(store.keys.child(run.groups["InputArtifacts"]))
        store.publish(group)
        for number in range(300):
            store.publish(Note(store.keys.child(group.key), text=str(number), content_type="text"))
        run.flush()
        with store.artifacts.read() as reader:
            assert reader.count(group.key) == 301
