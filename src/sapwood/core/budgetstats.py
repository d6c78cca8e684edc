"""What recorded budget results say about the budgets: which are too tight, which are never used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

TIGHT_SHARE: Final = 0.5
LOOSE_SHARE: Final = 0.25


class AppliedBudget(NamedTuple):
    """One recorded result."""

    phase: int | None
    node: str
    estimator: str
    original_tokens: int
    budget_tokens: int
    truncated_tokens: int
    was_truncated: bool


@dataclass(frozen=True, slots=True)
class BudgetStats:
    """All results of one phase, node, budget and estimator."""

    phase: int | None
    node: str
    budget_tokens: int
    estimator: str
    applied: int
    truncated: int
    median_original_tokens: int
    max_original_tokens: int
    dropped_tokens: int

    @property
    def verdict(self) -> str:
        """Say `too tight` when half of the contexts or more were cut, `never used` when none filled a quarter of it."""
        if self.truncated >= TIGHT_SHARE * self.applied:
            return "too tight"
        if self.max_original_tokens < LOOSE_SHARE * self.budget_tokens:
            return "never used"
        return "fits"


def summarise_budgets(results: Iterable[AppliedBudget]) -> list[BudgetStats]:
    """Return one line for each (phase, node, budget, estimator), in that order; unlimited budgets are left out."""
    groups: dict[tuple[int, str, int, str], list[AppliedBudget]] = {}
    for result in results:
        if result.budget_tokens > 0:
            place = (-1 if result.phase is None else result.phase, result.node, result.budget_tokens, result.estimator)
            groups.setdefault(place, []).append(result)
    return [_summary(group) for _, group in sorted(groups.items(), key=lambda item: item[0])]


def _summary(group: list[AppliedBudget]) -> BudgetStats:
    originals = sorted(result.original_tokens for result in group)
    first = group[0]
    return BudgetStats(
        phase=first.phase,
        node=first.node,
        budget_tokens=first.budget_tokens,
        estimator=first.estimator,
        applied=len(group),
        truncated=sum(result.was_truncated for result in group),
        median_original_tokens=originals[(len(originals) - 1) // 2],
        max_original_tokens=originals[-1],
        dropped_tokens=sum(result.original_tokens - result.truncated_tokens for result in group),
    )
