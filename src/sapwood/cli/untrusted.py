"""Agents' text for a terminal: what could move the cursor, change colours or hide is made visible."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterable
from typing import Any

import click

_DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def visible(text: str) -> str:
    """Return `text` with every control and format character but line feed and tab written out."""
    return "".join(character if _is_harmless(character) else f"\\u{{{ord(character):x}}}" for character in text)


def print_exactly(content: bytes) -> None:
    """Write the exact bytes; on a terminal, with control characters made visible."""
    if sys.stdout.isatty():
        click.echo(visible(content.decode(errors="backslashreplace")))
    else:
        click.echo(content, nl=False)


def one_line(text: str) -> str:
    """Return `text` visible and on one line: no name that an agent gave can begin a line of ours."""
    return visible(" ".join(text.split()))


def json_line(value: Any) -> str:
    """Return `value` as JSON on one line of ASCII, its integers exact: what was recorded may hold any."""
    usual = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return json.dumps(value)
    finally:
        sys.set_int_max_str_digits(usual)


def _is_harmless(character: str) -> bool:
    return character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def print_diff(lines: Iterable[str]) -> None:
    """Print the lines of a unified diff, in colour where there is a terminal and NO_COLOR is not set."""
    for line in lines:
        colour = None if os.environ.get("NO_COLOR") else _DIFF_COLOURS.get(line[:1])
        click.echo(click.style(visible(line), fg=colour) if colour else visible(line))
