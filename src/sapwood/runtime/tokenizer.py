"""Exact token counts, offline: the vocabularies of the `tokens` extra, loaded when the first one is asked for."""

from __future__ import annotations

from functools import cache
from typing import Any

from sapwood.core.tokens import CHARS_4, TokenCounter
from sapwood.errors import UnknownTokenizer


class ExactCounter:
    """Counts with one vocabulary; text that looks like a special token is counted as the text it is."""

    def __init__(self, name: str, tokenizer: Any) -> None:
        self.name = name
        self._encode = tokenizer.encode_ordinary

    def count(self, text: str) -> int:
        return len(self._encode(text))


@cache
def load_counter(name: str) -> TokenCounter:
    """Return the counter with this name: `chars/4`, or a vocabulary such as `o200k_base`."""
    if name == CHARS_4.name:
        return CHARS_4
    try:
        from splintr import Tokenizer
    except ImportError:
        raise UnknownTokenizer(
            name, "exact counting needs the extra `tokens` (pip install 'sapwood[tokens]')"
        ) from None
    try:
        return ExactCounter(name, Tokenizer.from_pretrained(name))
    except ValueError as error:
        raise UnknownTokenizer(name, str(error).rstrip(".")) from None
