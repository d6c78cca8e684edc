"""Text that others wrote, made harmless for a terminal: what would steer it is shown instead of sent."""

from __future__ import annotations

import unicodedata

_STEERING = frozenset({"Cc", "Cf", "Zl", "Zp"})


def visible(text: str, *, keep: str = "\n\t") -> str:
    """Return `text` with control, bidirectional and other invisible characters written as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in keep or unicodedata.category(char) not in _STEERING else _escape(char) for char in text
    )


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
