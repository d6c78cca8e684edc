"""What budget results say about the budgets."""

from __future__ import annotations

import pytest

from sapwood.core.budgetstats import AppliedBudget, summarise_budgets


def applied(original: int, budget: int = 100, phase: int | None = 2, node: str = "build") -> AppliedBudget:
    return AppliedBudget(phase, node, "chars/4", original, budget, min(original, budget), original > budget)


@pytest.mark.parametrize(
    ("originals", "verdict"),
    [
        ([300, 50], "too tight"),
        ([300, 50, 60], "fits"),
        ([10, 24], "never used"),
        ([10, 25], "fits"),
        ([200], "too tight"),
    ],
)
def test_a_verdict_needs_half_of_the_contexts_cut_or_none_that_fills_a_quarter(
    originals: list[int], verdict: str
) -> None:
    (stats,) = summarise_budgets([applied(original) for original in originals])
    assert stats.verdict == verdict


def test_each_phase_node_and_budget_has_its_own_line() -> None:
    results = [applied(150), applied(90), applied(9, phase=None), applied(9, budget=50), applied(9, budget=0)]
    stats = summarise_budgets(results)
    assert [(one.phase, one.budget_tokens, one.applied) for one in stats] == [(None, 100, 1), (2, 50, 1), (2, 100, 2)]
    last = stats[-1]
    assert (last.truncated, last.median_original_tokens, last.max_original_tokens) == (1, 90, 150)
    assert last.dropped_tokens == 50
