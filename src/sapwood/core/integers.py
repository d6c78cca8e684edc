"""Integers that are integers: `True` and `1.0` are not, and an id has to fit the column it is stored in."""

from __future__ import annotations

from typing import Final

MAX_ID: Final = 2**63 - 1


def is_integer(value: object) -> bool:
    """Tell whether `value` is an int, and not a bool, of at most 63 bits."""
    return type(value) is int and -MAX_ID <= value <= MAX_ID


def is_id(value: object) -> bool:
    """Tell whether `value` is a positive integer that a store can hold."""
    return type(value) is int and 0 < value <= MAX_ID
