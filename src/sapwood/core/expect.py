"""What enters a public function with the wrong type is refused there: a typed error says what was expected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sapwood.errors import WrongArgument


def expect(value: object, kind: type | tuple[type, ...], name: str, expected: str) -> None:
    """Refuse a `value` that is no `kind`."""
    if not isinstance(value, kind):
        raise WrongArgument(name, value, expected)


def expect_each(values: Iterable[Any], kind: type, name: str, expected: str) -> list[Any]:
    """Return `values` as a list; refuse what is no iterable, and items that are no `kind`."""
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes)):
        raise WrongArgument(name, values, expected)
    found = list(values)
    for number, value in enumerate(found):
        expect(value, kind, f"{name}[{number}]", expected)
    return found
