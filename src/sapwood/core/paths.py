"""Declared path -> safe parts, or a refusal with the reason of the first check that fails.

Nothing is decoded, expanded or repaired; only `.` parts and doubled slashes collapse. What stands on the disk is
checked by the writer, not here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sapwood.core.ingest_settings import IngestSettings

_SEPARATORS: Final = re.compile(r"[/\\]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_DRIVE: Final = re.compile("[A-Za-z]:")
_CONFUSABLE: Final = re.compile("[\u2024-\u2026\u2044\u2215\u2216\u29f5\u29f8\ufe52\ufe68\uff0e\uff0f\uff3c]")
_INVISIBLE: Final = re.compile("[\ufe00-\ufe0f\U000e0000-\U000e0fff\u115f\u1160\u3164]")
_WIN_CHAR: Final = re.compile(r'[<>|?*"]')
_RESERVED: Final = re.compile(r"(?i:CON|PRN|AUX|NUL|CLOCK\$|CONIN\$|CONOUT\$|(?:COM|LPT)[0-9\u00b9\u00b2\u00b3])")
_SHORT_NAME: Final = re.compile(r".{1,6}~[0-9]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Refused:
    """A declared path that is not written, and the code of the check that refused it."""

    declared: str
    reason: str


def safe_path(declared: str, settings: IngestSettings) -> tuple[str, ...] | Refused:
    """Return the parts of `declared` below the workspace, or why it is refused."""
    for reason, is_bad in _WHOLE_PATH:
        if is_bad(declared, settings):
            return Refused(declared, reason)
    parts = tuple(part for part in declared.split("/") if part not in ("", "."))
    if len(parts) > settings.limits.max_depth:
        return Refused(declared, "too_deep")
    for part in parts:
        for reason, is_bad in _ONE_PART:
            if is_bad(part, settings):
                return Refused(declared, reason)
    return parts


def collision_key(name: str) -> str:
    """Return what two names share that some file system, or some reader, takes for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _is_invisible(text: str) -> bool:
    return not text.isascii() and (
        _INVISIBLE.search(text) is not None
        or any(unicodedata.category(char) in ("Cf", "Co") or _is_noncharacter(ord(char)) for char in text)
    )


def _is_noncharacter(code_point: int) -> bool:
    return code_point & 0xFFFE == 0xFFFE or 0xFDD0 <= code_point <= 0xFDEF


def _stem(part: str) -> str:
    return part.split(".", 1)[0]


_Check = Callable[[str, IngestSettings], bool]

# In the order in which they are asked; the first that says yes names the reason.
_WHOLE_PATH: Final[tuple[tuple[str, _Check], ...]] = (
    ("encoding", lambda path, _: _SURROGATE.search(path) is not None),
    ("control_char", lambda path, _: _CONTROL.search(path) is not None),
    ("drive_letter", lambda path, _: _DRIVE.match(path) is not None),
    ("absolute", lambda path, _: path.startswith(("/", "\\"))),
    ("traversal", lambda path, _: ".." in _SEPARATORS.split(path)),
    ("confusable", lambda path, rules: rules.visible_names and _CONFUSABLE.search(path) is not None),
    ("invisible_char", lambda path, rules: rules.visible_names and _is_invisible(path)),
    ("not_nfc", lambda path, rules: rules.visible_names and not unicodedata.is_normalized("NFC", path)),
    ("home", lambda path, _: path.startswith("~")),
    ("colon", lambda path, rules: rules.portable_names and ":" in path),
    ("backslash", lambda path, rules: rules.portable_names and "\\" in path),
    ("win_char", lambda path, rules: rules.portable_names and _WIN_CHAR.search(path) is not None),
    ("path_too_long", lambda path, rules: len(path.encode()) > rules.limits.max_path_bytes),
    ("is_directory", lambda path, _: path.rsplit("/", 1)[-1] in ("", ".")),
)
_ONE_PART: Final[tuple[tuple[str, _Check], ...]] = (
    ("component_too_long", lambda part, rules: len(part.encode()) > rules.limits.max_component_bytes),
    ("reserved_name", lambda part, rules: rules.portable_names and _RESERVED.fullmatch(_stem(part)) is not None),
    ("trailing_dot_space", lambda part, rules: rules.portable_names and part.endswith((".", " "))),
    ("shortname", lambda part, rules: rules.portable_names and _SHORT_NAME.fullmatch(_stem(part)) is not None),
    ("denied_name", lambda part, rules: part.casefold() in rules.deny_names),
)
