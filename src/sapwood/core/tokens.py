"""Token budgets: how many tokens a text is about, and a cut that fits a budget at a sentence, else at a word.

Lengths here are Unicode code points. The estimate is four of them a token; an exact counter can take its place.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from sapwood.core.expect import expect
from sapwood.errors import WrongArgument

ELLIPSIS: Final = "..."
CHARS_PER_TOKEN: Final = 4


class TokenCounter(Protocol):
    """Counts tokens; its name stands in every record of what it counted."""

    @property
    def name(self) -> str: ...

    def count(self, text: str) -> int:
        """Return the number of tokens; 0 for the empty text only."""


class CharsPerToken:
    """The default: code points divided by four, rounded up, so that 0 means empty only."""

    name = "chars/4"

    def count(self, text: str) -> int:
        return -(-len(text) // CHARS_PER_TOKEN)


CHARS_4: Final = CharsPerToken()


@dataclass(frozen=True, slots=True)
class ContextBudgetResult:
    """What applying a budget did; `estimator` names the counter."""

    original_tokens: int
    budget_tokens: int
    truncated_tokens: int
    was_truncated: bool
    estimator: str = CharsPerToken.name


class Budgeted(NamedTuple):
    text: str
    result: ContextBudgetResult


def estimate_tokens(text: str, counter: TokenCounter = CHARS_4) -> int:
    """Return about how many tokens `text` is."""
    expect(text, str, "text", "text")
    _expect_counter(counter)
    return counter.count(text)


def truncate_to_token_budget(text: str, budget: int, counter: TokenCounter = CHARS_4) -> str:
    """Return `text` cut to `budget` tokens, the `...` at its end included; 0 or less means unlimited.

    The cut is after the last sentence that fits, else after the last whole word, else inside the word.
    """
    expect(text, str, "text", "text")
    if type(budget) is not int:
        raise WrongArgument("budget", budget, "a whole number of tokens; 0 means unlimited")
    _expect_counter(counter)
    if budget <= 0 or counter.count(text) <= budget:
        return text
    room = _room(text, budget, counter)
    while room > 0:
        kept = _cut(text, room)
        if counter.count(kept + ELLIPSIS) <= budget:
            return kept + ELLIPSIS
        room = len(kept) - 1  # an exact counter may find more tokens in a shorter text
    return ELLIPSIS if len(text) >= len(ELLIPSIS) and counter.count(ELLIPSIS) <= budget else ""


def apply_context_budget(text: str, max_tokens: int, counter: TokenCounter = CHARS_4) -> Budgeted:
    """Return `text` within `max_tokens`, and what that took."""
    kept = truncate_to_token_budget(text, max_tokens, counter)
    counts = counter.count(text), max_tokens, counter.count(kept)
    return Budgeted(kept, ContextBudgetResult(*counts, kept != text, counter.name))


def _expect_counter(counter: TokenCounter) -> None:
    if not callable(getattr(counter, "count", None)) or not isinstance(getattr(counter, "name", None), str):
        raise WrongArgument("counter", counter, "an object with a name and a function count")


def _room(text: str, budget: int, counter: TokenCounter) -> int:
    """Return how many code points may stay before the `...`; for an exact counter found by halving."""
    longest = len(text) - len(ELLIPSIS)  # a cut never makes the text longer
    if isinstance(counter, CharsPerToken):
        return min(longest, budget * CHARS_PER_TOKEN - len(ELLIPSIS))
    lengths = range(1, longest + 1)
    return bisect_right(lengths, budget, key=lambda length: counter.count(text[:length] + ELLIPSIS))


def _cut(text: str, room: int) -> str:
    """Return the longest beginning of `text`, which is longer than `room`, that ends well within `room`."""
    window = text[: room + 1]  # one more, to see whether the last sentence or word ends here
    sentence = max(window.rfind(". "), window.rfind(".\n"))
    if sentence >= 0:
        return window[: sentence + 1]
    if window[-1].isspace():
        return window.rstrip() or window[:room]
    words = window.rsplit(None, 1)
    return words[0] if len(words) == 2 else window[:room]
