"""One finished visit -> the edges it selects, with a reason for each edge that leaves the node.

Only structured results route: the outcome, the decision and the fields of the report; never a word of prose. The first
edge that matches is selected, or every one where the node says `select: all`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from sapwood.core.guards import Scope, Verdict, parse_guard
from sapwood.core.workflow import Decision, Edge, Node, Workflow

Outcome = Literal["success", "failure"]
Reason = Literal["selected", "outcome", "guard_false", "guard_missing", "guard_type", "passed_over", "loop_exhausted"]
Ending = Literal["unhandled_failure", "loop_exhausted", "blocked", "retry"]

_ALWAYS: Final = Verdict(True, "true")


class VisitResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a visit of a node came to: all that routing may see of it."""

    outcome: Outcome
    decision: Decision | None = None
    report: dict[str, Any] = {}
    attempt: int = 1


class EdgeDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Why one edge was selected or not; `edge` is its place in the workflow."""

    edge: int
    source: str
    target: str
    selected: bool
    reason: Reason
    detail: str = ""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What one visit decided, edge by edge in the order they were asked.

    `ending` is set when nothing was selected and that is no proper end: the run cannot count as completed.
    """

    node: str
    outcome: Outcome
    decisions: tuple[EdgeDecision, ...] = ()
    ending: Ending | None = None

    @property
    def selected(self) -> tuple[int, ...]:
        return tuple(decision.edge for decision in self.decisions if decision.selected)


def route(
    workflow: Workflow, key: str, result: VisitResult, inputs: Mapping[str, Any], loops_used: Mapping[int, int]
) -> Selection:
    """Decide every edge that leaves the node; `loops_used` says how often each loop edge was selected before."""
    scope = Scope(result.decision, result.report, inputs, result.attempt)
    takes_all = workflow.node(key).select == "all"
    decisions: list[EdgeDecision] = []
    chosen: int | None = None
    for place in workflow.edges_from(key):
        edge = workflow.edges[place]
        if chosen is not None and not takes_all:
            reason: Reason = "passed_over"
            detail = f"edge {chosen} to {workflow.edges[chosen].target} came first"
        else:
            reason, detail = _judge(edge, result.outcome, scope, loops_used.get(place, 0))
        if reason == "selected":
            chosen = place
        decisions.append(
            EdgeDecision(
                edge=place,
                source=key,
                target=edge.target,
                selected=reason == "selected",
                reason=reason,
                detail=detail,
            )
        )
    ending = _ending(result, decisions) if chosen is None else None
    return Selection(node=key, outcome=result.outcome, decisions=tuple(decisions), ending=ending)


def next_try_delay_s(node: Node, tries: int, result: VisitResult) -> float | None:
    """Return how long to wait before another try of this visit after `tries` of them, or None when it stands."""
    if tries >= node.attempts or (result.outcome == "success" and result.decision != "retry"):
        return None
    return node.backoff.delay_s(tries)


def _judge(edge: Edge, outcome: Outcome, scope: Scope, loops_used: int) -> tuple[Reason, str]:
    if edge.on not in (outcome, "terminal"):
        return "outcome", f"the edge is for {edge.on}, the node ended in {outcome}"
    verdict = parse_guard(edge.when).evaluate(scope) if edge.when is not None else _ALWAYS
    if not verdict.holds:
        reasons: dict[str, Reason] = {"missing": "guard_missing", "type": "guard_type"}
        return reasons.get(verdict.reason, "guard_false"), verdict.detail or f"{edge.when} does not hold"
    if edge.max_loops is not None and loops_used >= edge.max_loops:
        return "loop_exhausted", f"selected {loops_used} times, max_loops is {edge.max_loops}"
    return "selected", f"{edge.when} holds" if edge.when is not None else f"always on {edge.on}"


def _ending(result: VisitResult, decisions: list[EdgeDecision]) -> Ending | None:
    if result.outcome == "failure":
        return "unhandled_failure"
    if any(decision.reason == "loop_exhausted" for decision in decisions):
        return "loop_exhausted"
    if result.decision == "blocked" or result.decision == "retry":
        return result.decision
    return None
