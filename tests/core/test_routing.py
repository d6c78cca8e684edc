"""Routing: structured results select edges, each edge gets a reason, prose selects nothing."""

from __future__ import annotations

from typing import Any

import pytest

from sapwood.core.routing import Selection, VisitResult, next_try_delay_s, route
from sapwood.core.workflow import AgentNode, Backoff, Edge, Workflow


def workflow(*edges: Edge, select: Any = "first") -> Workflow:
    keys = dict.fromkeys(key for edge in edges for key in (edge.source, edge.target))
    nodes = tuple(AgentNode(key=key, template="tpl.a.b", select=select) for key in keys)
    return Workflow(name="w", nodes=nodes, edges=edges)


def reasons(selection: Selection) -> dict[str, str]:
    return {decision.target: decision.reason for decision in selection.decisions}


RESEARCH = workflow(
    Edge(source="research", target="brainstorm", when="decision == 'changes_requested'", priority=2, max_loops=3),
    Edge(source="research", target="review", when="report.quality.score >= 0.8", priority=1),
    Edge(source="research", target="rescue", on="failure"),
    Edge(source="research", target="always", on="terminal", priority=9),
)


@pytest.mark.parametrize(
    ("result", "loops", "expected"),
    [
        (
            VisitResult(outcome="success", report={"quality": {"score": 0.9}}),
            {},
            {"rescue": "outcome", "review": "selected", "brainstorm": "passed_over", "always": "passed_over"},
        ),
        (
            VisitResult(outcome="success", decision="changes_requested", report={"quality": {"score": 0.1}}),
            {},
            {"rescue": "outcome", "review": "guard_false", "brainstorm": "selected", "always": "passed_over"},
        ),
        (
            VisitResult(outcome="success", decision="changes_requested"),
            {0: 3},
            {"rescue": "outcome", "review": "guard_missing", "brainstorm": "loop_exhausted", "always": "selected"},
        ),
        (
            VisitResult(outcome="success", report={"quality": {"score": "high"}}),
            {},
            {"rescue": "outcome", "review": "guard_type", "brainstorm": "guard_false", "always": "selected"},
        ),
        (
            VisitResult(outcome="failure"),
            {},
            {"rescue": "selected", "review": "passed_over", "brainstorm": "passed_over", "always": "passed_over"},
        ),
    ],
)
def test_the_first_edge_that_matches_is_selected_and_every_edge_has_a_reason(
    result: VisitResult, loops: dict[int, int], expected: dict[str, str]
) -> None:
    selection = route(RESEARCH, "research", result, {}, loops)
    assert reasons(selection) == expected
    assert [d.target for d in selection.decisions] == list(expected), "asked by priority"
    assert len(selection.selected) == 1
    assert selection.ending is None
    assert all(decision.detail for decision in selection.decisions)


def test_select_all_selects_every_edge_that_matches() -> None:
    branch = workflow(
        Edge(source="a", target="b"),
        Edge(source="a", target="c", when="inputs.deep"),
        Edge(source="a", target="d", when="attempt > 1"),
        select="all",
    )
    selection = route(branch, "a", VisitResult(outcome="success"), {"deep": True}, {})
    assert reasons(selection) == {"b": "selected", "c": "selected", "d": "guard_false"}
    assert selection.selected == (0, 1)


def test_words_in_the_report_never_route() -> None:
    prose = VisitResult(outcome="success", report={"text": "decision: approved. APPROVED! decision == 'approved'"})
    gate = workflow(Edge(source="a", target="b", when="decision == 'approved'"))
    assert reasons(route(gate, "a", prose, {}, {})) == {"b": "guard_false"}


@pytest.mark.parametrize(
    ("result", "loops", "ending"),
    [
        (VisitResult(outcome="failure"), {}, "unhandled_failure"),
        (VisitResult(outcome="success", decision="changes_requested"), {0: 2}, "loop_exhausted"),
        (VisitResult(outcome="success", decision="blocked"), {}, "blocked"),
        (VisitResult(outcome="success", decision="retry"), {}, "retry"),
        (VisitResult(outcome="success", decision="approved"), {}, None),
        (VisitResult(outcome="success"), {}, None),
    ],
)
def test_a_visit_that_selects_nothing_says_whether_that_is_a_proper_end(
    result: VisitResult, loops: dict[int, int], ending: str | None
) -> None:
    loop = workflow(Edge(source="a", target="a", when="decision == 'changes_requested'", max_loops=2))
    selection = route(loop, "a", result, {}, loops)
    assert selection.selected == ()
    assert selection.ending == ending


@pytest.mark.parametrize(
    ("tries", "result", "delay"),
    [
        (1, VisitResult(outcome="failure"), 0.5),
        (2, VisitResult(outcome="failure"), 1.0),
        (3, VisitResult(outcome="failure"), None),
        (1, VisitResult(outcome="success", decision="retry"), 0.5),
        (1, VisitResult(outcome="success", decision="changes_requested"), None),
        (1, VisitResult(outcome="success"), None),
    ],
)
def test_failures_and_retry_decisions_are_tried_again_while_attempts_last(
    tries: int, result: VisitResult, delay: float | None
) -> None:
    node = AgentNode(key="a", template="tpl.a.b", attempts=3, backoff=Backoff(first_s=0.5))
    assert next_try_delay_s(node, tries, result) == delay
