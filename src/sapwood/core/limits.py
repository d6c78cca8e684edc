"""Limits on time, tokens, steps and cost: what has been used, and which limit it is over.

Everything is counted from what is recorded, so a crash gives nothing back: time runs from the recorded start, and the
tokens and tool calls of a delivery that its process did not survive count as far as they were recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import Limits, Price
from sapwood.errors import InvalidSettings, LimitReached, shown


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens read and written, answers and tool calls, and what they cost."""

    tokens: int = 0
    steps: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.tokens + other.tokens, self.steps + other.steps, self.cost + other.cost)


NOTHING = Usage()


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one scope (`node draft`, `the run`), when it started, and what it had used before this call."""

    scope: str
    limits: Limits
    started_ms: int
    used: Usage

    def check(self, more: Usage, now_ms: int) -> None:
        """Raise LimitReached if what was used, with `more`, is over one of the limits at this moment."""
        self.check_time(now_ms)
        used = self.used + more
        for name, amount in (("tokens", used.tokens), ("steps", used.steps), ("cost", used.cost)):
            limit = getattr(self.limits, name)
            if limit is not None and amount > limit:
                raise LimitReached(self.scope, name, amount, limit)

    def check_time(self, now_ms: int) -> None:
        """Raise LimitReached if the time is up."""
        passed_s, limit_s = (now_ms - self.started_ms) / 1000, self.limits.time_s
        if limit_s is not None and passed_s >= limit_s:
            raise LimitReached(self.scope, "time_s", round(passed_s, 3), limit_s)

    @property
    def deadline_ms(self) -> float | None:
        return None if self.limits.time_s is None else self.started_ms + 1000 * self.limits.time_s


def has_limits(limits: Limits) -> bool:
    return limits != Limits()


def total(amounts: Iterable[Usage]) -> Usage:
    """Return the sum."""
    return sum(amounts, NOTHING)


def usage_of(result: ProviderResult, tool_calls: int, price: Price | None) -> Usage:
    """Return what one answer used. Where it does not say how many tokens it read, the dearer price is taken."""
    return Usage(result.tokens, 1 + tool_calls, 0.0 if price is None else _cost(result, price))


def read_prices(settings: Mapping[str, Any]) -> dict[str, Price]:
    """Return the prices by model, from `{model: {input: …, output: …}}`; raise InvalidSettings."""
    prices = {}
    for model, price in settings.items():
        if not isinstance(price, Mapping) or not set(price) <= {"input", "output"}:
            raise InvalidSettings(f"prices.{model}", "expected a table with input and output")
        for name, value in price.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise InvalidSettings(f"prices.{model}.{name}", f"{shown(value)} is no price of a million tokens")
        prices[model] = Price(input_per_million=price.get("input", 0.0), output_per_million=price.get("output", 0.0))
    return prices


def _cost(result: ProviderResult, price: Price) -> float:
    if result.input_tokens is None:
        return result.tokens * max(price.input_per_million, price.output_per_million) / 1e6
    written = result.tokens - result.input_tokens
    return (result.input_tokens * price.input_per_million + written * price.output_per_million) / 1e6
