"""What in a text could mislead its reader: delimiter lines, envelope headers, invisible characters.

Flags are told in the manifest; the text itself is never changed.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sapwood.core.envelope import BEGIN, END, HEADER

_DELIMITER_LINE = re.compile(f"^(?:{BEGIN}|{END})\r?$", re.MULTILINE)
_INVISIBLE: Final = tuple(
    chr(code)
    for first, last in ((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x2069))
    for code in range(first, last + 1)
)
_TAGS = re.compile("[\U000e0000-\U000e007f]")
_LEAD_OF_INVISIBLE = b"\xe2"  # the first UTF-8 byte of U+2000-2FFF
_INVISIBLE_BYTES = re.compile(b"\xe2(?:\x80[\x8b-\x8f\xaa-\xae]|\x81[\xa0-\xa9])")
_MOSTLY_ASCII: Final = 1.5  # bytes a character
_LEAD_OF_TAGS = b"\xf3"  # and of U+C0000-FFFFF


class ContentFlags(NamedTuple):
    delimiter_in_content: bool
    envelope_in_content: bool
    invisible_chars: bool


CLEAN: Final = ContentFlags(False, False, False)


def find_flags(text: str, utf8: bytes) -> ContentFlags:
    """Return what is found in `text`; `utf8` are the bytes of a text that holds at least its characters."""
    # rfind is several times faster than `in`, which looks at every character of a long text
    has_delimiter = text.rfind(BEGIN) >= 0 or text.rfind(END) >= 0
    has_envelope = text.rfind(HEADER) >= 0
    if not has_delimiter and not has_envelope and text.isascii():
        return CLEAN
    return ContentFlags(
        has_delimiter and _DELIMITER_LINE.search(text) is not None,
        has_envelope,
        _has_invisible(text, utf8),
    )


def _has_invisible(text: str, utf8: bytes) -> bool:
    """The bytes rule out in one pass what most texts do not have; a character class over the text is slower tenfold.

    Looking for single characters is fast, but not among ASCII letters: some have the low bytes that are looked for.
    """
    if _LEAD_OF_TAGS in utf8 and _TAGS.search(text) is not None:
        return True
    if _LEAD_OF_INVISIBLE not in utf8:
        return False
    if len(utf8) < _MOSTLY_ASCII * len(text) and _INVISIBLE_BYTES.search(utf8) is None:
        return False
    return any(mark in text for mark in _INVISIBLE)
