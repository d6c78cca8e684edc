"""Limits as values: what is counted, and which of them is over."""

from __future__ import annotations

import pytest

from sapwood.core.limits import NOTHING, Budget, Usage, read_prices, total, usage_of
from sapwood.core.provider import ProviderResult
from sapwood.core.provider_lines import read_result
from sapwood.core.workflow import Limits, Price
from sapwood.errors import InvalidSettings, LimitReached

PRICE = Price(input_per_million=2.0, output_per_million=10.0)


def test_use_up_to_a_limit_is_allowed_and_beyond_it_is_not() -> None:
    budget = Budget("node a", Limits(tokens=100, steps=3, cost=0.5), 1000, Usage(40, 1, 0.25))
    budget.check(Usage(60, 2, 0.25), 10**9)
    for more, name in ((Usage(61), "tokens"), (Usage(steps=3), "steps"), (Usage(cost=0.26), "cost")):
        with pytest.raises(LimitReached, match=f"node a is over its limit: {name}"):
            budget.check(more, 10**9)


def test_time_runs_from_the_start_to_the_millisecond() -> None:
    budget = Budget("the run", Limits(time_s=1.5), 1000, NOTHING)
    assert budget.deadline_ms == 2500
    budget.check(NOTHING, 2499)
    with pytest.raises(LimitReached, match=r"time_s 1.5 of 1.5"):
        budget.check(NOTHING, 2500)


def test_an_answer_is_a_step_and_so_is_each_tool_call() -> None:
    assert usage_of(ProviderResult(tokens=10), 2, None) == Usage(10, 3, 0.0)
    assert total([Usage(1, 2, 3.0), Usage(10, 20, 30.0)]) == Usage(11, 22, 33.0)


def test_a_cost_needs_a_price_and_takes_the_dearer_one_where_it_cannot_know() -> None:
    assert usage_of(ProviderResult(tokens=1_000_000, input_tokens=900_000), 0, PRICE).cost == pytest.approx(2.8)
    assert usage_of(ProviderResult(tokens=1_000_000), 0, PRICE).cost == pytest.approx(10.0)


def test_a_result_that_says_what_it_read_says_it_as_a_part_of_its_tokens() -> None:
    assert read_result({"tokens": 5, "input_tokens": 3}).input_tokens == 3
    for wrong in (6, -1, True, "3"):
        with pytest.raises(ValueError, match="input_tokens"):
            read_result({"tokens": 5, "input_tokens": wrong})


def test_prices_from_the_settings() -> None:
    assert read_prices({"big": {"input": 2, "output": 10.0}}) == {"big": PRICE}
    assert read_prices({"free": {}}) == {"free": Price()}
    wrong: list[object] = [3, {"inptu": 1}, {"input": "1"}, {"output": -1}, {"input": True}, {"input": float("inf")}]
    for price in wrong:
        with pytest.raises(InvalidSettings, match=r"prices\.big"):
            read_prices({"big": price})
