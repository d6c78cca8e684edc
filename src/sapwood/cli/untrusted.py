"""Agents' text for a terminal: what could move the cursor, change colours or hide is made visible."""

from __future__ import annotations

import unicodedata


def visible(text: str) -> str:
    """Return `text` with every control and format character but line feed and tab written out."""
    return "".join(character if _is_harmless(character) else f"\\u{{{ord(character):x}}}" for character in text)


def _is_harmless(character: str) -> bool:
    return character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
