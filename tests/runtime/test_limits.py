"""Limits, timeouts and retries in a run: they hold, and no crash gives anything back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sapwood.clock import KeyFactory, now_ms
from sapwood.core.artifacts import AgentRequest, AgentResult, Delivery
from sapwood.core.events import GraphEvent, ToolCallEvent
from sapwood.core.keys import ArtifactKey
from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import Backoff, CommandNode, Edge, Limits, Price, SpawnNode, Workflow
from sapwood.engine.boot import boot
from sapwood.errors import ProviderFailed
from sapwood.providers.program import run_program
from sapwood.runtime.control import Control
from sapwood.runtime.executor import Executor
from sapwood.runtime.meter import Meter
from sapwood.runtime.session import Store
from sapwood.runtime.world import World
from tests.runtime.world import (
    Provider,
    agent,
    all_of,
    begin,
    chain,
    echo,
    finish_and_verify,
    make_executor,
    wait_for,
    workflow,
)


class Toolful(Provider):
    """Calls `calls` tools, each reported twice, then answers with `tokens`."""

    def __init__(self, calls: int = 0, tokens: int = 0, seconds: float = 0.0) -> None:
        super().__init__(lambda *_: ProviderResult("done", tokens=tokens), seconds=seconds)
        self._count = calls

    async def run(self, prompt: str, options: ProviderRunOptions) -> AsyncIterator[GraphEvent | ProviderResult]:
        keys = KeyFactory()
        for number in range(self._count):
            for status in ("pending", "completed"):
                yield ToolCallEvent(
                    event_id=keys.segment(),
                    node_id=options.node,
                    timestamp="2026-01-01T00:00:00.000Z",
                    tool_call_id=f"call {number}",
                    status=status,
                )
        async for item in super().run(prompt, options):
            yield item


def errors_of(store: Store, run: str) -> list[str]:
    return [str(one.error) for one in all_of(store, run, AgentResult) if one.status == "failed"]


def with_limits(flow: Workflow, **limits: Any) -> Workflow:
    return Workflow(name=flow.name, nodes=flow.nodes, edges=flow.edges, limits=Limits(**limits))


def test_a_node_stops_when_its_time_is_up_and_is_not_tried_again(tmp_path: Path, store: Store) -> None:
    flow = workflow(agent("slow", attempts=5, limits=Limits(time_s=0.3)), edges=[])
    started = time.monotonic()
    run = begin(store, flow)
    assert finish_and_verify(store, tmp_path, run, Provider(echo, seconds=30)) == "failed"
    assert time.monotonic() - started < 5
    (error,) = errors_of(store, run)
    assert "node slow is over its limit: time_s 0.3" in error


class Later:
    """A clock that can be put forward, for the store and for the keys it makes."""

    def __init__(self, store: Store, patch: pytest.MonkeyPatch) -> None:
        self.ahead_ms = 0
        patch.setattr(store, "clock", self)
        patch.setattr(store.keys, "_next", KeyFactory(clock=self).number)

    def __call__(self) -> int:
        return now_ms() + self.ahead_ms


@pytest.fixture
def later(store: Store, monkeypatch: pytest.MonkeyPatch) -> Later:
    return Later(store, monkeypatch)


def test_the_time_of_a_node_goes_on_while_no_process_is_at_it(tmp_path: Path, store: Store, later: Later) -> None:
    run = begin(store, workflow(agent("slow", limits=Limits(time_s=60.0)), edges=[]))
    with boot(tmp_path / "engine.db", make_executor(store, Provider(echo, seconds=30))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, Delivery)) == 1)
    later.ahead_ms = 60_000
    provider = Provider(echo)
    assert finish_and_verify(store, tmp_path, run, provider) == "failed"
    assert provider.seen == [], "the call was not made again"


def test_the_time_of_a_run_covers_all_its_nodes_and_what_follows_a_failure(tmp_path: Path, store: Store) -> None:
    flow = workflow(
        agent("a"),
        agent("b"),
        agent("rescue"),
        edges=[Edge(source="a", target="b"), Edge(source="b", target="rescue", on="failure")],
    )
    run = begin(store, with_limits(flow, time_s=2.5))

    class Slow(Provider):
        async def run(self, prompt: str, options: ProviderRunOptions) -> Any:
            self._seconds = 30.0 if prompt == "b" else 0.0
            async for item in super().run(prompt, options):
                yield item

    provider = Slow(echo)
    assert finish_and_verify(store, tmp_path, run, provider) == "failed"
    assert [prompt for prompt, _ in provider.seen] == ["a", "b"]
    assert ["the run is over its limit" in error for error in errors_of(store, run)] == [True, True]


def test_time_in_which_a_run_is_paused_does_not_count(tmp_path: Path, store: Store, later: Later) -> None:
    run = begin(store, with_limits(chain("a", "b"), time_s=60))
    control = Control(store.artifacts, store.keys)
    with boot(tmp_path / "engine.db", make_executor(store, Provider(echo))) as engine:
        control.pause(run)
        engine.submit(run)
        assert engine.wait(run, 10) == "paused"
        later.ahead_ms = 120_000
        control.resume(run)
        engine.submit(run)
        assert engine.wait(run, 10) == "completed"


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"tokens": 150}, "tokens 200 of 150"),
        ({"steps": 7}, "steps 8 of 7"),
        ({"cost": 0.0015}, "cost 0.002 of 0.0015"),
    ],
    ids=["tokens", "steps", "cost"],
)
def test_a_run_counts_what_all_its_nodes_use(tmp_path: Path, store: Store, limits: dict[str, Any], error: str) -> None:
    flow = chain("a", "b", "c")
    price = {"scripted": Price(input_per_million=10.0, output_per_million=10.0)}
    flow = Workflow(name="x", nodes=flow.nodes, edges=flow.edges, limits=Limits(**limits), prices=price)
    run = begin(store, flow)
    assert finish_and_verify(store, tmp_path, run, Toolful(calls=3, tokens=100)) == "failed"
    assert error in errors_of(store, run)[0]
    assert len(all_of(store, run, AgentRequest)) == 2


def test_a_node_that_calls_too_many_tools_is_stopped_in_the_middle(tmp_path: Path, store: Store) -> None:
    run = begin(store, workflow(agent("a", limits=Limits(steps=4)), edges=[]))
    assert finish_and_verify(store, tmp_path, run, Toolful(calls=100)) == "failed"
    assert "steps 5 of 4" in errors_of(store, run)[0]
    (result,) = all_of(store, run, AgentResult)
    assert result.metadata["steps"] == 5


def test_what_a_stopped_call_has_to_clean_up_is_done_before_its_end_is_recorded(tmp_path: Path, store: Store) -> None:
    ended: list[bool] = []

    class Slow(Toolful):
        async def run(self, prompt: str, options: ProviderRunOptions) -> AsyncIterator[GraphEvent | ProviderResult]:
            try:
                async for item in super().run(prompt, options):
                    yield item
            finally:
                await asyncio.sleep(0.3)  # as a program takes that is told to end
                ended.append(not all_of(store, run, AgentResult))

    run = begin(store, workflow(agent("busy", limits=Limits(steps=2)), edges=[]))
    assert finish_and_verify(store, tmp_path, run, Slow(calls=50)) == "failed"
    assert ended == [True]


def test_the_tries_of_a_visit_share_the_limits_of_their_node(tmp_path: Path, store: Store) -> None:
    def answer(_prompt: str, _options: ProviderRunOptions) -> ProviderResult:
        return ProviderResult("again", decision="retry", tokens=40)

    run = begin(
        store, workflow(agent("a", attempts=9, backoff=Backoff(first_s=0), limits=Limits(tokens=100)), edges=[])
    )
    assert finish_and_verify(store, tmp_path, run, Provider(answer)) == "failed"
    assert [one.metadata["tokens"] for one in all_of(store, run, AgentResult)] == [40, 40, 40]


def test_tools_called_before_a_crash_count(tmp_path: Path, store: Store) -> None:
    run = begin(store, workflow(agent("a", limits=Limits(steps=5)), edges=[]))
    with boot(tmp_path / "engine.db", make_executor(store, Toolful(calls=3, seconds=30))) as engine:
        engine.submit(run)
        wait_for(lambda: sum(b"call 2" in row for row in rows_of(store, run)) == 2)
    assert finish_and_verify(store, tmp_path, run, Toolful(calls=3)) == "failed"
    assert "steps 6 of 5" in errors_of(store, run)[0]


def rows_of(store: Store, run: str) -> list[bytes]:
    store.recorder.flush()
    with store.artifacts.read() as reader:
        return [record.content for record in reader.load_kinds(ArtifactKey(run), ["EventArtifact"])]


def test_the_limits_of_a_spawn_hold_for_its_children_together(tmp_path: Path, store: Store) -> None:
    node = SpawnNode(key="s", each=agent("s"), items=tuple(range(6)), parallel=1, limits=Limits(tokens=250))
    run = begin(store, workflow(node, edges=[]))
    provider = Toolful(tokens=100)
    assert finish_and_verify(store, tmp_path, run, provider) == "failed"
    assert len(provider.seen) == 3
    assert all("node s is over its limit: tokens 300 of 250" in error for error in errors_of(store, run))


@pytest.mark.mutant
def test_without_the_check_a_limit_stops_nothing(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for check in ("check", "check_time"):
        monkeypatch.setattr(Meter, check, lambda _self: None)
    run = begin(store, workflow(agent("a", limits=Limits(steps=1, tokens=1, time_s=0.001)), edges=[]))
    assert finish_and_verify(store, tmp_path, run, Toolful(calls=3, tokens=100)) == "completed"


# commands


def test_a_command_is_ended_with_all_it_started_when_its_time_is_up(tmp_path: Path, store: Store) -> None:
    node = CommandNode(key="c", run=("sh", "-c", "sleep 30 & echo $! > pid; wait"), limits=Limits(time_s=0.5))
    run = begin(store, workflow(node, edges=[]))
    world = World(store, {}, run_program, project=tmp_path)
    with boot(tmp_path / "engine.db", Executor(world)) as engine:
        engine.submit(run)
        assert engine.wait(run, 10) == "failed"
    assert "node c is over its limit: time_s" in errors_of(store, run)[0]
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]
    except FileNotFoundError:
        return False


# retries


def failing(times: int) -> Provider:
    left = iter([True] * times)

    def answer(prompt: str, options: ProviderRunOptions) -> ProviderResult:
        if next(left, False):
            raise ProviderFailed("scripted", "overloaded")
        return echo(prompt, options)

    return Provider(answer)


def test_a_retry_waits_from_the_recorded_end_also_in_another_process(
    tmp_path: Path, store: Store, later: Later
) -> None:
    run = begin(store, workflow(agent("a", attempts=2, backoff=Backoff(first_s=60.0)), edges=[]))
    with boot(tmp_path / "engine.db", make_executor(store, failing(1))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, AgentRequest)) == 2)
        assert engine.wait(run, 0.3) is None
    later.ahead_ms = 60_000
    started = time.monotonic()
    assert finish_and_verify(store, tmp_path, run, Provider(echo)) == "completed"
    assert time.monotonic() - started < 20, "the wait began anew"


def test_a_failure_that_no_retry_can_mend_is_not_retried(tmp_path: Path, store: Store) -> None:
    def answer(_prompt: str, _options: ProviderRunOptions) -> ProviderResult:
        raise ProviderFailed("scripted", "wrong option", retryable=False)

    run = begin(store, workflow(agent("a", attempts=5, backoff=Backoff(first_s=0)), edges=[]))
    assert finish_and_verify(store, tmp_path, run, Provider(answer)) == "failed"
    assert len(all_of(store, run, AgentRequest)) == 1


def test_a_run_can_be_cancelled_while_a_retry_waits(tmp_path: Path, store: Store) -> None:
    run = begin(store, workflow(agent("a", attempts=2, backoff=Backoff(first_s=60.0)), edges=[]))
    with boot(tmp_path / "engine.db", make_executor(store, failing(1))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, AgentRequest)) == 2)
        Control(store.artifacts, store.keys).cancel(run)
        assert engine.wait(run, 5) == "cancelled"


def test_a_run_can_be_paused_while_a_retry_waits(tmp_path: Path, store: Store) -> None:
    run = begin(store, workflow(agent("a", attempts=2, backoff=Backoff(first_s=1.0)), edges=[]))
    control = Control(store.artifacts, store.keys)
    with boot(tmp_path / "engine.db", make_executor(store, failing(1))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, AgentRequest)) == 2)
        control.pause(run)
        assert engine.wait(run, 5) == "paused"
        control.resume(run)
        engine.submit(run)
        assert engine.wait(run, 5) == "completed"
    assert len(all_of(store, run, AgentRequest)) == 2
