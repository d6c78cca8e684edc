"""Guards: what holds, what does not and why, and that nothing a file or a report contains can do harm."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core import guards
from sapwood.core.guards import MAX_GUARD_CHARS, MAX_GUARD_DEPTH, Scope, parse_guard
from sapwood.errors import InvalidGuard

SCOPE = Scope(
    decision="approved",
    report={
        "quality": {"score": 0.9},
        "tasks": [{"name": "a"}, {"name": "b"}],
        "ok": True,
        "title": "plan",
        "none": None,
        "odd key": 1,
    },
    inputs={"topic": "trees", "depth": 3},
    attempt=2,
)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("report.quality.score >= 0.8", True),
        ("report.quality.score < 0.8", False),
        ("decision == 'approved'", True),
        ('decision != "approved"', False),
        ("decision in ['approved', 'retry']", True),
        ("decision not in ['approved', 'retry']", False),
        ("'odd key' in report and report['odd key'] == 1", True),
        ("report.tasks[1].name == 'b'", True),
        ("report.tasks[0]['name'] == 'b'", False),
        ("'la' in report.title", True),
        ("report.ok", True),
        ("not report.ok", False),
        ("not not report.ok", True),
        ("report.none == null", True),
        ("report.title != null", True),
        ("attempt > 1 and inputs.depth == 3", True),
        ("attempt > 2 or inputs.topic == 'trees'", True),
        ("true or false and false", True),
        ("(true or false) and false", False),
        ("not false == true", True),
        ("inputs.depth == 3.0", True),
        ("-1 < 0", True),
        ("1e3 == 1000", True),
        ("'it\\'s' == \"it's\"", True),
        ("report.missing == 1 or true", True),
        ("report.missing == 1 and false", False),
        ("'approved' == decision\n  and true", True),
    ],
)
def test_a_guard_holds_or_not(text: str, holds: bool) -> None:
    verdict = parse_guard(text).evaluate(SCOPE)
    assert verdict.holds is holds
    assert verdict.reason == ("true" if holds else "false")


@pytest.mark.parametrize(
    ("text", "reason", "detail"),
    [
        ("report.missing == 1", "missing", "report.missing is missing"),
        ("not report.missing", "missing", "report.missing is missing"),
        ("not (report.quality.depth > 1)", "missing", "report.quality.depth is missing"),
        ("report.tasks[2].name == 'c'", "missing", "report.tasks[2].name is missing"),
        ("report.title.length > 1", "missing", "report.title.length is missing"),
        ("report.missing == 1 or false", "missing", "report.missing is missing"),
        ("[report.missing] == []", "missing", "report.missing is missing"),
        ("report.title > 1", "type", "text > a number cannot be compared"),
        ("report.title == 1", "type", "text == a number cannot be compared"),
        ("report.ok == 1", "type", "true or false == a number cannot be compared"),
        ("report.ok < true", "type", "true or false < true or false cannot be compared"),
        ("1 in report.title", "type", "a number in text cannot be compared"),
        ("report.title", "type", "the guard gives text, not true or false"),
        ("not report.title", "type", "text is neither true nor false"),
        ("report.title and true", "type", "text is neither true nor false"),
        ("report.none < 1", "type", "null < a number cannot be compared"),
    ],
)
def test_what_cannot_be_known_does_not_hold_and_says_why(text: str, reason: str, detail: str) -> None:
    assert parse_guard(text).evaluate(SCOPE) == (False, reason, detail)


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("", 1, "a value is missing"),
        ("decision ==", 12, "a value is missing"),
        ("decision = 'x'", 10, "unexpected '='; did you mean '=='?"),
        ("attempt > 1 && true", 13, "unexpected '&'; did you mean 'and'?"),
        ("decision == approved", 13, "unknown name 'approved'"),
        ("report.", 8, "a field name must follow the dot"),
        ("report.1", 8, "a field name must follow the dot"),
        ("1 < 2 < 3", 7, "cannot be chained"),
        ("(true", 6, "expected ')'"),
        ("true)", 5, "expected and, or"),
        ("[1, 2", 6, "expected ','"),
        ("report[-1] == 1", 10, "expected a place"),
        ("report[1.5] == 1", 11, "expected a place"),
        ("'open", 1, "unexpected"),
        ("__import__('os')", 1, "unknown name"),
        ("report.x() == 1", 9, "expected and, or"),
        ("lambda: 1", 7, "unexpected ':'"),
        ("true and", 9, "a value is missing"),
        ("not", 4, "a value is missing"),
        ("decision not 'x'", 14, "expected 'in'"),
        ("010 == 8", 1, "unexpected"),
        ("x" * (MAX_GUARD_CHARS + 1), MAX_GUARD_CHARS + 1, "longer than"),
        ("(" * 40 + "true" + ")" * 40, MAX_GUARD_DEPTH + 2, "levels deep"),
        ("not " * 40 + "true", None, "levels deep"),
        ("[" * 40, None, "levels deep"),
    ],
)
def test_a_guard_that_does_not_parse_names_the_place(text: str, position: int | None, words: str) -> None:
    with pytest.raises(InvalidGuard) as caught:
        parse_guard(text)
    assert words in str(caught.value)
    if position is not None:
        assert caught.value.position == position


def test_the_fields_a_guard_reads_are_known_before_it_runs() -> None:
    assert parse_guard("inputs.topic == 'x' and report.a[0].b > attempt").fields == (
        ("inputs", "topic"),
        ("report", "a", 0, "b"),
        ("attempt",),
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
pieces = st.sampled_from(
    [
        "report",
        "report.a",
        "report.b[0]",
        "report['c']",
        "inputs.a",
        "decision",
        "attempt",
        "1",
        "-2.5",
        "'x'",
        "true",
        "false",
        "null",
        "==",
        "!=",
        "<",
        ">=",
        "in",
        "not",
        "and",
        "or",
        "(",
        ")",
        "[",
        "]",
        ",",
        ".",
    ]
)


@given(st.lists(pieces, max_size=14).map(" ".join), st.dictionaries(st.sampled_from("abc"), json_values))
def test_every_text_is_refused_with_a_position_or_evaluates_without_raising(text: str, report: dict[str, Any]) -> None:
    position = None
    try:
        guard = parse_guard(text)
    except InvalidGuard as refused:
        position = refused.position
    if position is not None:
        assert 1 <= position <= len(text) + 1
        return
    verdict = guard.evaluate(dataclasses.replace(SCOPE, report=report))
    assert verdict.holds == (verdict.reason == "true")


@given(json_values, json_values, st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "not in"]))
def test_a_comparison_and_its_negation_never_both_hold(left: Any, right: Any, operator: str) -> None:
    scope = Scope(report={"a": left, "b": right})
    plain = parse_guard(f"report.a {operator} report.b").evaluate(scope)
    negated = parse_guard(f"not (report.a {operator} report.b)").evaluate(scope)
    assert not (plain.holds and negated.holds)
    assert (plain.reason in ("true", "false")) == (plain.holds or negated.holds)


UNKNOWN = ("report.missing != 1", "missing", "report.missing is missing")
MIXED = ("report.ok == 1", "type", "true or false == a number cannot be compared")


@pytest.mark.mutant
@pytest.mark.parametrize(
    ("name", "broken", "check", "case"),
    [
        ("MAX_GUARD_DEPTH", 10_000, test_a_guard_that_does_not_parse_names_the_place, ("(" * 40, 34, "levels deep")),
        ("MAX_GUARD_CHARS", 10**9, test_a_guard_that_does_not_parse_names_the_place, ("1 " * 600, None, "longer")),
        ("_held", lambda value, step: None, test_what_cannot_be_known_does_not_hold_and_says_why, UNKNOWN),
        ("_compare", lambda operator, a, b: a == b, test_what_cannot_be_known_does_not_hold_and_says_why, MIXED),
    ],
)
def test_a_broken_guard_language_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, broken: Any, check: Callable[..., None], case: tuple[Any, ...]
) -> None:
    check(*case)
    monkeypatch.setattr(guards, name, broken)
    with pytest.raises(AssertionError):
        check(*case)
