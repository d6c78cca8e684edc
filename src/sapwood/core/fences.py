"""Output text -> file blocks: a strict state machine over the lines that can open or close something.

Fence structure is CommonMark's, so whatever stands inside a block is its content and nothing else. Of all backtick
fences only one form is a file: three backticks at column 0, a language, one space, `file=`, one path token. Every
other backtick fence is a block too, with the reason why it is skipped. Lines end at LF alone.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from sapwood.core.expect import expect

# Every line that matters starts after a newline; a literal first character lets the scan jump from line to line.
_MARKER: Final = re.compile(
    r"\n(?: {0,3}(?P<run>`{3,}|~{3,})|<<<(?P<edge>BEGIN|END)>>>(?=\r?\n|\Z)|(?P<head>ALPHRED_UPSTREAM_ARTIFACT v))"
)
_FILE: Final = re.compile(r"([A-Za-z0-9_+.-]+) file=([^\s'\"](?:\S*[^\s'\"])?)")  # \s is str.isspace
_DECLARED: Final = re.compile(r"(?:^|\s)file=(\S*)")
_LANG: Final = re.compile(r"[A-Za-z0-9_+.-]+")
_BLANKS: Final = " \t"
_QUOTES: Final = ("'", '"')
_KEY: Final = "file="
_ENVELOPE_LINES: Final = 20


class Block(msgspec.Struct, frozen=True, gc=False):
    """One backtick fence: `status` is what it will be unless a later check objects, `reason` why not `written`."""

    index: int
    lang: str
    declared_file: str
    content: str
    status: str
    reason: str


class _Open(msgspec.Struct, frozen=True, gc=False):
    """The fence that is open: its run of characters, where its body starts, and its header's verdict."""

    run: str
    body_at: int
    lang: str = ""
    token: str = ""
    reason: str = ""


class _Envelope:
    """Whether an echo of what came from upstream is open."""

    __slots__ = ("_head_at", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._head_at = -1  # the latest first line of an envelope, while a BEGIN may still belong to it

    def pass_line(self, text: str, found: re.Match[str], *, is_inside: bool) -> None:
        """Take note of an envelope's first line, or of one of its edges."""
        if found["head"]:
            self._head_at = found.start()
        elif found["edge"] == "END":
            self.is_open = False
        elif not self.is_open and not is_inside and self._head_at >= 0:
            self.is_open = text.count("\n", self._head_at, found.start()) <= _ENVELOPE_LINES
            if not self.is_open:
                self._head_at = -1


def parse_fences(document: str) -> list[Block]:
    """Return every backtick fence of `document`, in order. Refuses no text; in time linear in the document's length."""
    expect(document, str, "document", "text")
    text = "\n" + document.removeprefix("\ufeff")
    blocks: list[Block] = []
    fence: _Open | None = None
    envelope = _Envelope()
    for found in _MARKER.finditer(text):
        run = found["run"]
        if run is None:
            envelope.pass_line(text, found, is_inside=fence is not None)
            continue
        line_end = text.find("\n", found.end())
        line_end = len(text) if line_end < 0 else line_end
        info = text[found.end() : line_end].removesuffix("\r")
        if fence is None:
            indent = found.end() - found.start() - 1 - len(run)
            fence = _opened(run, indent, info, line_end + 1, is_quoted=envelope.is_open)
        elif run[0] == fence.run[0] and len(run) >= len(fence.run) and not info.strip(_BLANKS):
            if run[0] == "`":
                blocks.append(_closed(len(blocks), fence, text[fence.body_at : found.start() + 1]))
            fence = None
    if fence is not None and fence.run[0] == "`":
        blocks.append(_unterminated(len(blocks), fence))
    return blocks


def _opened(run: str, indent: int, info: str, body_at: int, *, is_quoted: bool) -> _Open | None:
    if run[0] == "~":
        return _Open(run, body_at)
    if "`" in info:  # CommonMark: then it is inline code
        return None
    is_file = _FILE.fullmatch(info)
    lang, token, reason = (is_file[1], is_file[2], "") if is_file else _read_header(info)
    if len(run) != 3:
        reason = "fence_length"
    elif indent:
        reason = "indented"
    elif is_quoted:
        reason = "quoted_upstream"
    return _Open(run, body_at, lang, token, reason)


def _read_header(info: str) -> tuple[str, str, str]:
    """Return language, path token and the reason of the first check that fails, of a header that is no file's."""
    words = info.split(None, 1)
    if not words or words[0].startswith(_KEY):
        return "", _first_token(info), "missing_lang"
    lang = words[0]
    if not _LANG.fullmatch(lang):
        return "", _first_token(info), "bad_lang"
    token = _first_token(words[1]) if len(words) > 1 else ""
    if len(words) == 1 or not words[1].strip():
        return lang, "", "missing_file"
    if not _DECLARED.search(words[1]):
        return lang, "", "bad_key"
    rest = info[len(lang) :]
    if not info.startswith(lang) or rest[0] != " " or rest[1].isspace():
        return lang, token, "format"
    return _read_token(lang, rest[1:], token)


def _read_token(lang: str, rest: str, token: str) -> tuple[str, str, str]:
    """Judge what stands after the language and one space."""
    if not rest.startswith(_KEY):
        return lang, token, "extra_attr"
    whole = rest.removeprefix(_KEY)
    token = whole.rstrip(_BLANKS)
    if " " in token:
        return lang, token.split(" ", 1)[0], "extra_attr"
    if not token:
        return lang, "", "empty_path"
    if token != whole:
        return lang, token, "trailing_space"
    if any(character.isspace() for character in token):
        return lang, token, "whitespace_in_path"
    if token.startswith(_QUOTES) or token.endswith(_QUOTES):
        return lang, token, "quoted"
    return lang, token, ""


def _first_token(info: str) -> str:
    """Return the first path token that a malformed header declares, for the manifest."""
    found = _DECLARED.search(info)
    return found[1] if found else ""


def _closed(index: int, fence: _Open, content: str) -> Block:
    return Block(index, fence.lang, fence.token, content, "skipped" if fence.reason else "written", fence.reason)


def _unterminated(index: int, fence: _Open) -> Block:
    if fence.reason:
        return Block(index, fence.lang, fence.token, "", "skipped", fence.reason)
    return Block(index, fence.lang, fence.token, "", "rejected", "unterminated")
