"""Every request that is executed came through enrichment, whichever path made it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sapwood.core.artifacts import AgentRequest, AgentResult
from sapwood.core.enrichment import enrich
from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import Backoff, Edge
from sapwood.errors import NotEnriched, ProviderFailed
from sapwood.runtime import journal as journal_module
from sapwood.runtime.session import Store
from tests.runtime.world import Provider, agent, all_of, begin, chain, echo, finish_and_verify, workflow


def test_a_retry_and_a_loop_are_told_of_every_try_before_them(tmp_path: Path, store: Store) -> None:
    ends: Iterator[str] = iter(["fail", "changes_requested", "approved"])

    def answer(prompt: str, options: ProviderRunOptions) -> ProviderResult:
        end = next(ends)
        if end == "fail":
            raise ProviderFailed("scripted", "overloaded")
        return ProviderResult(report=prompt, decision=end)  # type: ignore[arg-type]

    flow = workflow(
        agent("draft", attempts=2, backoff=Backoff(first_s=0.01)),
        edges=[Edge(source="draft", target="draft", when="decision == 'changes_requested'", max_loops=3)],
    )
    run = begin(store, flow)
    assert finish_and_verify(store, tmp_path, run, Provider(answer)) == "completed"
    requests, results = all_of(store, run, AgentRequest), all_of(store, run, AgentResult)
    assert requests[0].previous_context == ()
    first, second = requests[2].previous_context
    assert requests[1].previous_context == (first,)
    assert (first.key, first.status, first.result) == (requests[0].key, "failed", results[0].key)
    assert "overloaded" in first.error
    assert (second.key, second.status, second.error) == (requests[1].key, "completed", None)
    assert [(one.visit, one.try_) for one in requests] == [(1, 1), (1, 2), (2, 1)]


def test_a_planning_agent_stands_below_its_orchestrator(tmp_path: Path, store: Store) -> None:
    run = begin(store, chain("planning_orchestrator", "planning_agent", "after"))
    assert finish_and_verify(store, tmp_path, run, Provider(echo)) == "completed"
    orchestrator, planner, after = sorted(all_of(store, run, AgentRequest), key=lambda one: one.key.last_segment)
    assert planner.key.parent == orchestrator.key
    assert after.key.parent == orchestrator.key.parent


@pytest.mark.mutant
def test_without_enrichment_nothing_is_executed(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def bare(*args: Any) -> AgentRequest:
        return msgspec.structs.replace(enrich(*args), previous_context=msgspec.UNSET)

    monkeypatch.setattr(journal_module, "enrich", bare)
    provider = Provider(echo)
    run = begin(store, chain("a"))
    with pytest.raises(NotEnriched, match="no previous context"):
        finish_and_verify(store, tmp_path, run, provider)
    assert provider.seen == []
