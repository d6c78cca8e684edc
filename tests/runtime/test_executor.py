"""The executor on the engine and a real store: what is recorded, what is handed on, and what no crash can undo."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sapwood.clock import KeyFactory
from sapwood.core.artifacts import AgentResult, Delivery, Log, Report
from sapwood.core.keys import ArtifactKey
from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import Backoff, CommandNode, Edge, GateNode, JoinNode
from sapwood.engine.boot import boot
from sapwood.errors import InvalidAnswer, NotFound, ProviderFailed
from sapwood.runtime import executor as executor_module
from sapwood.runtime.control import Control
from sapwood.runtime.session import Store
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


def test_a_linear_flow_hands_each_report_to_the_next_node(tmp_path: Path, store: Store) -> None:
    provider = Provider(echo)
    run = begin(store, chain("brainstorm", "pick", "research"))
    assert finish_and_verify(store, tmp_path, run, provider) == "completed"
    contexts = {prompt: options.context for prompt, options in provider.seen}
    assert contexts["brainstorm"] == ()
    assert "report of brainstorm" in contexts["pick"][0]
    assert len(contexts["research"]) == 1
    assert "report of pick" in contexts["research"][0]
    reports = {report.node_key: report for report in all_of(store, run, Report)}
    assert reports["brainstorm"].context_manifest["missing_upstream_artifacts"] is True
    assert reports["pick"].context_manifest["included_source_node_keys"] == ["brainstorm"]
    with store.artifacts.read() as reader:
        row = reader.find_run(ArtifactKey(run))
    assert row is not None
    assert row.status == "completed"


def test_a_join_gets_only_the_branches_that_were_selected(tmp_path: Path, store: Store) -> None:
    flow = workflow(
        agent("plan", select="all"),
        agent("left"),
        agent("right"),
        agent("never"),
        JoinNode(key="join"),
        agent("last"),
        edges=[
            Edge(source="plan", target="left"),
            Edge(source="plan", target="right"),
            Edge(source="plan", target="never", when="decision == 'blocked'"),
            Edge(source="left", target="join"),
            Edge(source="right", target="join"),
            Edge(source="never", target="join"),
            Edge(source="join", target="last"),
        ],
    )
    provider = Provider(echo)
    run = begin(store, flow)
    assert finish_and_verify(store, tmp_path, run, provider) == "completed"
    joined = next(report for report in all_of(store, run, Report) if report.node_key == "join")
    assert joined.text == "## left\n\nreport of left\n\n## right\n\nreport of right"
    assert "never" not in [prompt for prompt, _ in provider.seen]
    with store.artifacts.read() as reader:
        assert reader.find_claim(ArtifactKey(run), "never", 0, 0, "pruned") is not None


def test_a_failing_attempt_is_tried_again_and_both_stay(tmp_path: Path, store: Store) -> None:
    failures = iter([True, False])

    def answer(prompt: str, options: ProviderRunOptions) -> ProviderResult:
        if next(failures):
            raise ProviderFailed("scripted", "overloaded")
        return echo(prompt, options)

    flow = workflow(agent("one", attempts=2, backoff=Backoff(first_s=0.05)), edges=[])
    run = begin(store, flow)
    assert finish_and_verify(store, tmp_path, run, Provider(answer)) == "completed"
    results = all_of(store, run, AgentResult)
    assert [result.status for result in results] == ["failed", "completed"]
    assert "overloaded" in all_of(store, run, Log)[0].text
    assert [report.attempt for report in all_of(store, run, Report)] == [2]


def test_a_critique_loop_goes_round_until_it_is_approved(tmp_path: Path, store: Store) -> None:
    verdicts = iter(["changes_requested", "changes_requested", "approved"])

    def answer(prompt: str, options: ProviderRunOptions) -> ProviderResult:
        if prompt == "review":
            return ProviderResult(report="verdict", decision=next(verdicts))  # type: ignore[arg-type]
        return echo(prompt, options)

    flow = workflow(
        agent("draft"),
        agent("review"),
        agent("final"),
        edges=[
            Edge(source="draft", target="review"),
            Edge(source="review", target="draft", when="decision == 'changes_requested'", priority=1, max_loops=5),
            Edge(source="review", target="final", when="decision == 'approved'", priority=2),
        ],
    )
    run = begin(store, flow)
    provider = Provider(answer)
    assert finish_and_verify(store, tmp_path, run, provider) == "completed"
    assert Counter(prompt for prompt, _ in provider.seen) == {"draft": 3, "review": 3, "final": 1}


def test_a_run_whose_node_fails_for_good_fails_and_keeps_its_tree(tmp_path: Path, store: Store) -> None:
    run = begin(store, workflow(CommandNode(key="build", run=("3", "broken")), edges=[]))
    assert finish_and_verify(store, tmp_path, run, Provider(echo)) == "failed"
    assert all_of(store, run, AgentResult)[0].result == {"exit_code": 3}


def test_a_provider_without_a_result_or_with_more_fails_the_attempt(tmp_path: Path, store: Store) -> None:
    class Silent(Provider):
        async def run(self, prompt: str, options: ProviderRunOptions) -> Any:
            for answer in [ProviderResult(report="one"), ProviderResult(report="two")] if prompt == "b" else []:
                yield answer

    run = begin(store, workflow(agent("a"), agent("b"), edges=[]))
    assert finish_and_verify(store, tmp_path, run, Silent(echo)) == "failed"
    errors = sorted(result.error for result in all_of(store, run, AgentResult))
    assert "ended without a result" in errors[0]
    assert "went on after its result" in errors[1]


def test_two_runs_with_the_same_records_hand_on_the_same_bytes(tmp_path: Path, store: Store) -> None:
    """Only what is unique to a run may differ: its number and its times."""
    shown = []
    for _ in range(2):
        provider = Provider(echo)
        finish_and_verify(store, tmp_path, begin(store, chain("a", "b")), provider)
        (entry,) = provider.seen[1][1].context
        shown.append([line for line in entry.splitlines() if not line.startswith(("workflow_run_id", "created_at"))])
    assert shown[0] == shown[1]


def test_a_run_that_has_ended_leaves_nothing_in_memory(tmp_path: Path, store: Store) -> None:
    executor = make_executor(store, Provider(echo))
    run = begin(store, chain("a", "b"))
    with boot(tmp_path / "engine.db", executor) as engine:
        engine.submit(run)
        assert engine.wait(run, 20) == "completed"
        engine.submit(run)
        assert engine.wait(run, 20) == "completed", "asked again, it is read again"
    kept = [value for value in vars(executor._histories).values() if isinstance(value, dict)]
    assert [len(one) for one in kept] == [0] * 5
    assert executor.journal._ids == {}


# what people say


def test_a_gate_waits_for_an_answer_and_takes_the_first(tmp_path: Path, store: Store) -> None:
    flow = workflow(
        GateNode(key="review", ask="Ship it?"),
        agent("ship"),
        edges=[Edge(source="review", target="ship", when="decision == 'approved'")],
    )
    run = begin(store, flow)
    control = Control(store.artifacts, KeyFactory())
    with boot(tmp_path / "engine.db", make_executor(store, Provider(echo))) as engine:
        with pytest.raises(NotFound):
            control.answer(run, "review", "approved", "nobody yet")
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, Delivery)) == 1)
        with pytest.raises(InvalidAnswer, match="approved, changes_requested"):
            control.answer(run, "review", "maybe", "me")
        assert control.answer(run, "review", "approved", "me")
        with suppress(NotFound):  # the gate may have taken the first one already
            assert not control.answer(run, "review", "changes_requested", "another")
        assert engine.wait(run, 20) == "completed"
    assert [result.decision for result in all_of(store, run, AgentResult)] == ["approved", None]


def test_a_cancelled_run_stops_its_call_and_is_sealed(tmp_path: Path, store: Store) -> None:
    run = begin(store, chain("slow", "next"))
    with boot(tmp_path / "engine.db", make_executor(store, Provider(echo, seconds=30))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, Delivery)) == 1)
        control = Control(store.artifacts, KeyFactory())
        assert control.cancel(run)
        assert not control.cancel(run)
        assert engine.wait(run, 10) == "cancelled"
    assert [result.status for result in all_of(store, run, AgentResult)] == ["cancelled"]


def test_a_paused_run_lets_its_call_end_and_goes_on_when_it_is_resumed(tmp_path: Path, store: Store) -> None:
    run = begin(store, chain("one", "two"))
    control = Control(store.artifacts, KeyFactory())
    with boot(tmp_path / "engine.db", make_executor(store, Provider(echo, seconds=0.2))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, Delivery)) == 1)
        assert control.pause(run)
        assert not control.pause(run)
        assert engine.wait(run, 10) == "paused"
        assert [result.status for result in all_of(store, run, AgentResult)] == ["completed"]
        assert control.resume(run)
        engine.submit(run)
        assert engine.wait(run, 10) == "completed"
    assert len(all_of(store, run, AgentResult)) == 2


# crashes


@pytest.mark.parametrize("keeps_engine", [True, False])
def test_after_a_stop_only_the_call_in_flight_is_made_again(tmp_path: Path, store: Store, keeps_engine: bool) -> None:
    run = begin(store, chain("a", "b", "c"))
    calls = tmp_path / "calls"

    class StopsAtB(Provider):
        async def run(self, prompt: str, options: ProviderRunOptions) -> Any:
            self._seconds = 30.0 if prompt == "b" else 0.0
            async for item in super().run(prompt, options):
                yield item

    with boot(tmp_path / "engine.db", make_executor(store, StopsAtB(echo, calls))) as engine:
        engine.submit(run)
        wait_for(lambda: calls.exists() and calls.read_text() == "a\nb\n")
    if not keeps_engine:
        for name in ("engine.db", "engine.db-wal", "engine.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
    assert finish_and_verify(store, tmp_path, run, Provider(echo, calls)) == "completed"
    assert calls.read_text() == "a\nb\nb\nc\n"
    assert len(all_of(store, run, AgentResult)) == 3
    deliveries = all_of(store, run, Delivery)
    assert [(one.delivery, one.interrupted is not None) for one in deliveries] == [
        (1, False),
        (1, False),
        (2, True),
        (1, False),
    ]


def test_an_attempt_that_kills_its_process_again_and_again_fails(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_module, "MAX_DELIVERIES", 2)
    run = begin(store, chain("a"))
    for _ in range(2):
        with boot(tmp_path / "engine.db", make_executor(store, Provider(echo, seconds=30))) as engine:
            before = len(all_of(store, run, Delivery))
            engine.submit(run)
            wait_for(lambda: len(all_of(store, run, Delivery)) > before)  # noqa: B023
    assert finish_and_verify(store, tmp_path, run, Provider(echo)) == "failed"
    assert "died 2 times" in all_of(store, run, AgentResult)[0].error
