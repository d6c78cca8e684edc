"""All states of runs and nodes can be read from the store, and people can speak to a run whose process is elsewhere."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sapwood.clock import KeyFactory
from sapwood.core.artifacts import AgentResult, Delivery, Report
from sapwood.core.keys import ArtifactKey
from sapwood.core.workflow import Backoff, CommandNode, Edge, GateNode, Workflow
from sapwood.engine.boot import boot
from sapwood.errors import ProviderFailed, StoreUnwritable
from sapwood.runtime import executor as executor_module
from sapwood.runtime.control import Control
from sapwood.runtime.overview import Overview
from sapwood.runtime.session import Store
from sapwood.runtime.watch import POLLING_S, Said, Watch
from tests.runtime.world import (
    Provider,
    agent,
    all_of,
    begin,
    chain,
    echo,
    finish,
    make_executor,
    open_world,
    wait_for,
    workflow,
)


def states(store: Store, run: str) -> tuple[str, dict[str, str]]:
    view = Overview(store).load(ArtifactKey(run))
    return view.status, {node.key: node.status for node in view.nodes}


def elsewhere(folder: Path, *words: str) -> dict[str, Any]:
    """Say it to the run from another process."""
    said = [sys.executable, "-m", "sapwood", *words, "--store", str(folder / "sapwood.db"), "--json"]
    done = subprocess.run(said, capture_output=True, text=True, check=False)
    answer: dict[str, Any] = json.loads(done.stdout or "{}")
    return answer


def gated() -> Workflow:
    return workflow(
        GateNode(key="review", ask="Ship it?"),
        agent("ship"),
        agent("fix"),
        edges=[
            Edge(source="review", target="ship", when="decision == 'approved'", priority=1),
            Edge(source="review", target="fix", when="decision == 'changes_requested'", priority=2),
        ],
    )


def leave_at_gate(store: Store, folder: Path) -> str:
    """Start a run and leave it while it waits for a person; its process is gone for all that anybody can see."""
    run = begin(store, gated())
    with boot(folder / "engine.db", make_executor(store, Provider(echo))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, Delivery)) == 1)
    return run


# states


def test_pending_running_completed_and_skipped(tmp_path: Path, store: Store) -> None:
    run = begin(store, gated())
    assert states(store, run) == ("running", {"review": "pending", "ship": "pending", "fix": "pending"})
    with boot(tmp_path / "engine.db", make_executor(store, Provider(echo, seconds=0.5))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, Delivery)) == 1)
        assert states(store, run)[1]["review"] == "waiting"
        Control(store.artifacts, store.keys).answer(run, "review", "approved", "me")
        wait_for(lambda: len(all_of(store, run, Delivery)) == 2)
        assert states(store, run) == ("running", {"review": "completed", "ship": "running", "fix": "skipped"})
        assert engine.wait(run, 20) == "completed"
    assert states(store, run) == ("completed", {"review": "completed", "ship": "completed", "fix": "skipped"})


def test_failed_and_what_can_no_longer_be_reached(tmp_path: Path, store: Store) -> None:
    flow = workflow(
        CommandNode(key="build", run=("3", "broken")), agent("ship"), edges=[Edge(source="build", target="ship")]
    )
    run = begin(store, flow)
    assert finish(store, tmp_path, run) == "failed"
    assert states(store, run) == ("failed", {"build": "failed", "ship": "skipped"})


def test_cancelled_with_all_that_was_open_or_had_not_begun(tmp_path: Path, store: Store) -> None:
    run = begin(store, chain("slow", "next"))
    with boot(tmp_path / "engine.db", make_executor(store, Provider(echo, seconds=30))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, Delivery)) == 1)
        Control(store.artifacts, store.keys).cancel(run)
        assert engine.wait(run, 10) == "cancelled"
    assert states(store, run) == ("cancelled", {"slow": "cancelled", "next": "cancelled"})


def test_paused_while_a_retry_waits(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(*_: Any) -> Any:
        raise ProviderFailed("scripted", "overloaded")

    run = begin(store, workflow(agent("a", attempts=2, backoff=Backoff(first_s=60)), agent("b"), edges=[]))
    monkeypatch.setattr(store, "is_alive", lambda _owner: False)
    with boot(tmp_path / "engine.db", make_executor(store, Provider(answer))) as engine:
        engine.submit(run)
        wait_for(lambda: states(store, run)[1]["b"] == "failed")
        Control(store.artifacts, store.keys).pause(run)
        assert engine.wait(run, 10) == "paused"
    assert states(store, run) == ("paused", {"a": "paused", "b": "failed"})


def test_interrupted_when_the_process_is_gone(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin(store, chain("slow", "next"))
    with boot(tmp_path / "engine.db", make_executor(store, Provider(echo, seconds=30))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, Delivery)) == 1)
    with monkeypatch.context() as patch:
        patch.setattr(store, "is_alive", lambda _owner: False)
        assert states(store, run) == ("interrupted", {"slow": "interrupted", "next": "pending"})
    assert finish(store, tmp_path, run) == "completed"


# another process speaks


def test_another_process_pauses_resumes_and_answers_a_live_run(tmp_path: Path, store: Store) -> None:
    run = begin(store, gated())
    with boot(tmp_path / "engine.db", make_executor(store, Provider(echo))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, Delivery)) == 1)
        assert elsewhere(tmp_path, "pause", run)["was_first"] is True
        assert engine.wait(run, 10) == "paused", "a run that waits for a person can be paused"
        assert Control(store.artifacts, store.keys).resume(run)
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, Delivery)) == 2)
        assert elsewhere(tmp_path, "answer", run, "review", "changes_requested", "-m", "shorter")["was_first"] is True
        assert engine.wait(run, 20) == "completed"
    reports = {one.node_key: one.text for one in all_of(store, run, Report)}
    assert reports["review"] == "changes_requested\n\nshorter"
    assert "fix" in reports


def test_another_process_cancels_a_live_run(tmp_path: Path, store: Store) -> None:
    run = begin(store, chain("slow", "next"))
    with boot(tmp_path / "engine.db", make_executor(store, Provider(echo, seconds=30))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, Delivery)) == 1)
        elsewhere(tmp_path, "cancel", run)
        assert engine.wait(run, 10) == "cancelled"


# nobody is at the run


def test_a_gate_is_answered_while_no_process_is_at_its_run(tmp_path: Path) -> None:
    with open_world(tmp_path / "sapwood.db") as store:
        run = leave_at_gate(store, tmp_path)
    assert elsewhere(tmp_path, "answer", run, "review", "approved")["was_first"] is True
    with open_world(tmp_path / "sapwood.db") as store:
        assert finish(store, tmp_path, run) == "completed"
        assert [one.decision for one in all_of(store, run, AgentResult)] == ["approved", None]


def test_a_run_is_paused_and_resumed_while_no_process_is_at_it(tmp_path: Path) -> None:
    with open_world(tmp_path / "sapwood.db") as store:
        run = leave_at_gate(store, tmp_path)
    assert elsewhere(tmp_path, "pause", run)["was_first"] is True
    with open_world(tmp_path / "sapwood.db") as store:
        assert states(store, run)[0] == "paused"
        assert finish(store, tmp_path, run) == "paused"
        control = Control(store.artifacts, store.keys)
        assert control.resume(run)
        assert control.answer(run, "review", "approved", "me")
        assert finish(store, tmp_path, run) == "completed"


def test_a_run_is_cancelled_while_no_process_is_at_it(tmp_path: Path) -> None:
    with open_world(tmp_path / "sapwood.db") as store:
        run = leave_at_gate(store, tmp_path)
    elsewhere(tmp_path, "cancel", run)
    with open_world(tmp_path / "sapwood.db") as store:
        assert states(store, run) == ("cancelled", {"review": "cancelled", "ship": "cancelled", "fix": "cancelled"})
        assert store.verify(run).is_ok


def test_a_gate_outlives_any_number_of_processes(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_module, "MAX_DELIVERIES", 1)
    run = leave_at_gate(store, tmp_path)
    with boot(tmp_path / "engine.db", make_executor(store, Provider(echo))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, Delivery)) == 2)
        Control(store.artifacts, KeyFactory()).answer(run, "review", "approved", "me")
        assert engine.wait(run, 10) == "completed"


def test_many_calls_that_want_to_know_ask_the_store_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ArtifactKey(begin(store, gated()))
    watch, control, asked = Watch(store.artifacts), Control(store.artifacts, store.keys), []
    real = Watch._ask

    def counted(self: Watch, key: ArtifactKey, pauses: int) -> Said:
        asked.append(key)
        return real(self, key, pauses)

    monkeypatch.setattr(Watch, "_ask", counted)

    async def many() -> set[tuple[bool, bool]]:
        found = await asyncio.gather(*(watch.said(run) for _ in range(100)))
        await asyncio.sleep(POLLING_S)
        return {(one.is_cancelled, one.is_paused) for one in found}

    assert asyncio.run(many()) == {(False, False)}
    assert len(asked) == 1
    control.pause(run.text)
    assert asyncio.run(many()) == {(False, True)}
    control.resume(run.text)
    assert asyncio.run(many()) == {(False, False)}
    control.pause(run.text)
    control.cancel(run.text)
    assert asyncio.run(many()) == {(True, True)}


# the store fails


def test_a_store_that_fails_is_no_failure_of_the_node(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: Any, **_more: Any) -> None:
        raise StoreUnwritable("sapwood.db", "disk full")

    run = begin(store, chain("a"))
    with monkeypatch.context() as patch:
        patch.setattr("sapwood.runtime.node_agent.record_prompt", full)
        with boot(tmp_path / "engine.db", make_executor(store, Provider(echo))) as engine:
            engine.submit(run)
            with pytest.raises(StoreUnwritable):
                engine.wait(run, 10)
    assert all_of(store, run, AgentResult) == []
    assert finish(store, tmp_path, run) == "completed"
