"""The token budget: every invariant of BUDGET is a test with that name, for every text and budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sapwood
from sapwood import apply_context_budget, estimate_tokens, truncate_to_token_budget
from sapwood.core import tokens

TEXTS = st.text(st.sampled_from("ab. \n…文😀") | st.characters(exclude_categories=["Cs"]), max_size=80)
BUDGETS = st.integers(-2, 25)


class Words:
    """An exact counter for tests: a token for each word and each mark, so that cuts can cost more than they save."""

    name = "words"

    def count(self, text: str) -> int:
        return sum(1 for character in text if not character.isalnum()) + len(text.split())


COUNTERS = st.sampled_from([tokens.CHARS_4, Words()])


def test_estimate_tokens_of_the_empty_text_returns_0() -> None:
    assert estimate_tokens("") == 0


@given(TEXTS)
def test_estimate_tokens_is_chars_divided_by_4_rounded_up(text: str) -> None:
    assert estimate_tokens(text) == len(text) // 4 + (len(text) % 4 > 0)
    assert (estimate_tokens(text) == 0) == (text == "")


@given(TEXTS, COUNTERS)
def test_truncate_to_token_budget_with_budget_0_returns_text_unchanged(text: str, counter: tokens.TokenCounter) -> None:
    assert truncate_to_token_budget(text, 0, counter) == text
    assert truncate_to_token_budget(text, -1, counter) == text


@given(TEXTS, BUDGETS, COUNTERS)
def test_truncated_tokens_are_at_most_budget_tokens_when_was_truncated(
    text: str, budget: int, counter: tokens.TokenCounter
) -> None:
    kept, result = apply_context_budget(text, budget, counter)
    if result.was_truncated:
        assert result.truncated_tokens <= result.budget_tokens
    assert result.was_truncated == (kept != text)
    assert result.truncated_tokens == counter.count(kept)
    assert result.original_tokens == counter.count(text)
    assert (result.budget_tokens, result.estimator) == (budget, counter.name)


@given(TEXTS, BUDGETS, COUNTERS)
def test_truncated_tokens_equal_original_tokens_when_not_was_truncated(
    text: str, budget: int, counter: tokens.TokenCounter
) -> None:
    kept, result = apply_context_budget(text, budget, counter)
    if not result.was_truncated:
        assert result.truncated_tokens == result.original_tokens
        assert kept == text
        assert budget <= 0 or result.original_tokens <= budget


@given(TEXTS, BUDGETS, COUNTERS)
def test_truncation_never_increases_the_length_of_the_input(
    text: str, budget: int, counter: tokens.TokenCounter
) -> None:
    assert len(truncate_to_token_budget(text, budget, counter)) <= len(text)


@given(TEXTS, BUDGETS)
def test_a_cut_keeps_a_beginning_of_the_text_and_appends_dots(text: str, budget: int) -> None:
    kept = truncate_to_token_budget(text, budget)
    if kept != text:
        assert kept.endswith("...")
        assert text.startswith(kept[:-3])


@pytest.mark.parametrize(
    ("text", "budget", "expected"),
    [
        ("One two. Three four. Five six seven", 6, "One two. Three four...."),
        ("One two.\nThree four five six seven", 4, "One two...."),
        ("One two. Three four. Five six seven", 5, "One two...."),
        ("alpha beta gamma delta", 4, "alpha beta..."),
        ("alpha beta  \n gamma delta", 4, "alpha beta..."),
        ("abcdefghijklmnop", 2, "abcde..."),
        ("文件文件文件文件文件", 2, "文件文件文..."),
        ("😀😀😀😀😀", 1, "😀..."),
        ("a.b.c.d.e.f.g.h.i", 2, "a.b.c..."),
        (" abcdefghijkl", 2, " abcd..."),
        ("fits as it is", 4, "fits as it is"),
    ],
)
def test_a_cut_is_after_a_sentence_else_after_a_word_else_inside_it(text: str, budget: int, expected: str) -> None:
    assert truncate_to_token_budget(text, budget) == expected


@given(TEXTS, st.integers(1, 25))
def test_no_longer_cut_of_the_same_kind_would_have_fitted(text: str, budget: int) -> None:
    kept = truncate_to_token_budget(text, budget)
    if kept == text:
        return
    room = budget * 4 - 3
    ends = [i + 1 for i in range(min(room, len(text) - 1)) if text[i] == "." and text[i + 1] in " \n"]
    words = [i for i in range(1, room + 1) if text[i].isspace() and not text[i - 1].isspace()]
    assert len(kept) - 3 == (ends[-1] if ends else words[-1] if words else room)


@pytest.mark.mutant
def test_without_room_for_the_dots_the_budget_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_room", lambda text, budget, counter: budget * 4)
    monkeypatch.setattr(tokens.CharsPerToken, "count", lambda self, text: -(-len(text.removesuffix("...")) // 4))
    kept = truncate_to_token_budget("abcdefghijklmnop", 2)
    assert -(-len(kept) // 4) > 2


def test_the_result_carries_the_name_of_the_estimator() -> None:
    assert sapwood.apply_context_budget("abc", 0)[1].estimator == "chars/4"
