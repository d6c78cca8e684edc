"""Mistakes as people make them, and worse: one random change of a text."""

from __future__ import annotations

import random
from collections.abc import Callable

VALUES = [
    "null",
    "-1",
    "1e99",
    "[]",
    "{}",
    '""',
    "true",
    "0",
    "999999999999",
    "~",
    "'",
    "x" * 300,
    "../../etc",
    "${inputs",
    "!!python/object:os.system",
    "&a [*a]",
    ".inf",
    "2026-01-01",
    "0x1F",
    "é\u202e",
]
CHARACTERS = [
    "\t",
    "\0",
    "\x1b",
    "\ufeff",
    "\u202e",
    "{",
    "}",
    "[",
    "]",
    ":",
    "#",
    "&",
    "*",
    "!",
    "|",
    ">",
    "'",
    '"',
    "%",
    "@",
    "`",
    "\\",
    "\r",
    "😀",
    "\ud800".encode("utf-16", "surrogatepass").decode("utf-16", "replace"),
]


def mutate(text: str, rng: random.Random) -> str:
    """Return the text with one mistake in it."""
    return rng.choice(KINDS)(text, rng)


def _line(text: str, rng: random.Random) -> tuple[list[str], int]:
    lines = text.split("\n")
    return lines, rng.choice([number for number, line in enumerate(lines) if line.strip()])


def drop_line(text: str, rng: random.Random) -> str:
    lines, at = _line(text, rng)
    return "\n".join(lines[:at] + lines[at + 1 :])


def repeat_line(text: str, rng: random.Random) -> str:
    lines, at = _line(text, rng)
    return "\n".join(lines[: at + 1] + lines[at:])


def swap_lines(text: str, rng: random.Random) -> str:
    lines, at = _line(text, rng)
    _, other = _line(text, rng)
    lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines)


def indent(text: str, rng: random.Random) -> str:
    lines, at = _line(text, rng)
    lines[at] = rng.choice([" ", "  ", "\t"]) + lines[at] if rng.random() < 0.5 else lines[at][1:]
    return "\n".join(lines)


def replace_value(text: str, rng: random.Random) -> str:
    places = [at for at in range(len(text) - 1) if text[at : at + 2] == ": "]
    at = rng.choice(places) + 2
    end = min((found for sign in ",}]\n" if (found := text.find(sign, at)) >= 0), default=len(text))
    return text[:at] + rng.choice(VALUES) + text[end:]


def misspell(text: str, rng: random.Random) -> str:
    places = [at for at in range(1, len(text) - 1) if text[at].isalpha() and text[at + 1].isalpha()]
    at = rng.choice(places)
    return rng.choice(
        [
            text[:at] + text[at + 1] + text[at] + text[at + 2 :],
            text[:at] + text[at + 1 :],
            text[:at] + text[at] + text[at:],
        ]
    )


def insert_character(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(CHARACTERS) + text[at:]


def drop_character(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text))
    return text[:at] + text[at + 1 :]


def cut_off(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text))]


def exchange_words(text: str, rng: random.Random) -> str:
    words = [word for word in text.replace("{", " ").replace("}", " ").replace(",", " ").split() if word.isalpha()]
    one, two = rng.choice(words), rng.choice(words)
    return text.replace(one, two, 1)


KINDS: list[Callable[[str, random.Random], str]] = [
    drop_line,
    repeat_line,
    swap_lines,
    indent,
    replace_value,
    replace_value,
    misspell,
    misspell,
    insert_character,
    drop_character,
    cut_off,
    exchange_words,
]
