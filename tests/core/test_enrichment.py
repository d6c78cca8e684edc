"""Enrichment: where a request stands and what it is told of the tries before it, by the request's type."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sapwood.clock import KeyFactory
from sapwood.core.artifacts import PreviousTry
from sapwood.core.codec import from_record, to_record
from sapwood.core.enrichment import Outgoing, Past, check_enriched, context_id, enrich, find_parent, request_type
from sapwood.core.keys import MAX_DEPTH, ArtifactKey
from sapwood.errors import KeyTooDeep, NotEnriched

KEYS = KeyFactory()
RUN = KEYS.root()
AGENTS = KEYS.child(RUN)


def past(**more: Any) -> Past:
    known: dict[str, Any] = {"run_id": RUN.text, "agents": AGENTS, "opener": None, "requests": {}, "tries": []}
    return Past(**known | more)


def outgoing(node: str = "a", attempt: int = 1) -> Outgoing:
    return Outgoing(node, attempt, run_node_id=3, visit=1, try_number=attempt, request={"kind": "agent"})


def tries(count: int) -> list[PreviousTry]:
    made = []
    for _ in range(count):
        key = KEYS.child(AGENTS)
        made.append(PreviousTry(key=key, status="failed", error="overloaded", result=KEYS.child(key)))
    return made


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("planning_agent", "PlanningAgentRequest"),
        ("planning-orchestrator", "PlanningOrchestratorRequest"),
        ("tasks.planning_agent", "PlanningAgentRequest"),
        ("a", "ARequest"),
    ],
)
def test_the_type_of_a_request_is_named_after_its_node(node: str, expected: str) -> None:
    assert request_type(node) == expected


def test_a_request_of_no_special_type_stands_below_the_agents_of_the_run() -> None:
    assert find_parent("research", past(requests={"planning_orchestrator": [KEYS.child(AGENTS)]})) == AGENTS


def test_a_fanned_out_request_and_one_of_a_sub_workflow_stand_below_what_opened_them() -> None:
    container = KEYS.child(KEYS.child(AGENTS))
    assert find_parent("research", past(opener=container)) == container
    assert find_parent("planning_agent", past(opener=container)) == container


def test_a_planning_agent_stands_below_the_last_planning_orchestrator() -> None:
    first, second = KEYS.child(AGENTS), KEYS.child(AGENTS)
    history = {"x.planning_orchestrator": [second], "planning_orchestrator": [first], "other": [KEYS.child(AGENTS)]}
    assert find_parent("planning_agent", past(requests=history)) == second
    assert find_parent("planning_agent", past()) == AGENTS


def test_without_a_parent_the_run_id_counts_if_it_is_a_key_and_else_there_is_a_new_root() -> None:
    assert context_id("a", past(agents=None), KEYS).parent == RUN
    assert context_id("a", past(agents=None, run_id="run 7"), KEYS).depth == 1


def test_a_run_id_too_deep_for_a_child_is_refused_and_no_new_root_is_made() -> None:
    deepest = ArtifactKey("ak:" + "/".join([RUN.last_segment] * MAX_DEPTH))
    with pytest.raises(KeyTooDeep, match="the limit is 64"):
        context_id("a", past(agents=None, run_id=deepest.text), KEYS)
    with pytest.raises(KeyTooDeep, match="the limit is 64"):
        context_id("a", past(agents=None, run_id=f"{deepest}/{RUN.last_segment}"), KEYS)


def test_an_enriched_request_carries_every_try_before_it_newest_last_and_survives_storage() -> None:
    earlier = tries(2)
    request = enrich(outgoing(attempt=3), past(tries=earlier), KEYS)
    assert request.context_id.parent == AGENTS
    assert request.previous_context == tuple(earlier)
    assert (request.visit, request.try_, request.run_node_id) == (1, 3, 3)
    assert request.request == {"type": "ARequest", "node": "a", "kind": "agent"}
    check_enriched(request, AGENTS)
    assert from_record(to_record(request)) == request


@pytest.mark.mutant
@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"previous_context": msgspec.UNSET}, "no previous context"),
        ({"previous_context": ()}, "0 of 1 tries"),
        ({"key": ArtifactKey("ak:01HQXK5V8RPZM4J3NHWGC7SDFG")}, "not below the run's agents"),
        ({"key": KEYS.child(RUN)}, "not below the run's agents"),
    ],
    ids=["no previous context", "a try is missing", "a root", "directly below the run"],
)
def test_a_request_that_lacks_its_context_is_refused(change: dict[str, Any], what: str) -> None:
    request = enrich(outgoing(attempt=2), past(tries=tries(1)), KEYS)
    check_enriched(request, AGENTS)
    with pytest.raises(NotEnriched, match=what):
        check_enriched(msgspec.structs.replace(request, **change), AGENTS)
