"""One artifact on one line: what it is, how large, how long it took, what is odd about it, and how it begins."""

from __future__ import annotations

from typing import Any, Final

import click
import msgspec

from sapwood.cli.untrusted import visible
from sapwood.core.canonical import NO_JSON
from sapwood.core.codec import read_content
from sapwood.core.instants import instant_of_ms
from sapwood.core.keys import ArtifactKey
from sapwood.core.record import Record
from sapwood.errors import SapwoodError
from sapwood.ports import Glance, Reader

SCOPES: Final = frozenset({"Execution", "AgentRequest", "AgentRequests", "Delivery"})
NARROW: Final = 100
TELLING: Final = {  # the fields that say most, of the kinds whose content has many
    "AgentRequest": ("node", "attempt"),
    "AgentResult": ("status", "decision", "error"),
    "EventArtifact": ("type", "payload"),
    "Input": ("name", "value"),
    "MessageStreamArtifact": ("type", "payload"),
    "OutcomeEvidence": ("name", "passed"),
    "RefArtifact": ("role", "target"),
    "Seal": ("status", "head"),
    "ToolCallArtifact": ("tool", "status", "error"),
    "ValidationError": ("code", "message"),
}


class _Entry(msgspec.Struct):
    dropped_chars: int = 0


class _Manifest(msgspec.Struct):
    included_count: int = 0
    entries: tuple[_Entry, ...] = ()
    dropped_artifact_ids: tuple[int, ...] = ()


class _Reported(msgspec.Struct):
    """What the metadata of a report tell of the context that its node got."""

    context_manifest: _Manifest | None = None


class ArtifactLines:
    """Writes the lines of one page; remembers what the lines before showed."""

    def __init__(self, reader: Reader, top: ArtifactKey, width: int, *, is_tree: bool, with_keys: bool) -> None:
        self._reader = reader
        self._top = top
        self._width = width
        self._is_tree = is_tree
        self._with_keys = with_keys
        self._path: list[ArtifactKey] | None = None
        self._first: dict[tuple[ArtifactKey | None, str, str], ArtifactKey] = {}
        row = reader.find_run(top.root)
        self._is_open = row is not None and row.status == "running"

    def line(self, seen: Glance) -> str:
        """Return the line, without its newline; whole keys stand in a line of their own."""
        level, marks = self._place(seen)
        facts = [human_bytes(seen.size_bytes)]
        if seen.kind in SCOPES and (duration_ms := self._duration_ms(seen.key)) is not None:
            facts.append(human_duration(duration_ms))
        if not self._is_tree:
            facts.insert(0, instant_of_ms(seen.key.time_ms).partition("T")[2][:-1])
        facts += [f"[{mark}]" for mark in marks + context_marks(seen.metadata)]
        indent = "  " * level if self._is_tree else ""
        name = seen.key.last_segment if self._width >= NARROW and not self._with_keys else ""
        room = self._width - sum(len(word) + 2 for word in (indent + seen.kind, *facts, *([name] if name else [])))
        words = [indent + click.style(seen.kind, bold=True), *facts, click.style(name, dim=True) if name else ""]
        line = "  ".join([*filter(None, words), preview(seen, room)]).rstrip()
        return f"{line}\n{indent}  {click.style(seen.key.text, dim=True)}" if self._with_keys else line

    def _place(self, seen: Glance) -> tuple[int, list[str]]:
        """Return how deep it stands below what is stored, and what is odd about its place."""
        path = self._ancestors(seen.key) if self._path is None else self._path
        while path and not path[-1].is_ancestor_of(seen.key):
            path.pop()
        marks, parent = [], seen.key.parent
        if self._is_tree and not self._is_open and parent is not None and seen.key != self._top:
            marks += [] if path and path[-1] == parent else ["parent missing"]
        first = self._first.setdefault((parent, seen.kind, seen.content_hash), seen.key)
        if first != seen.key and parent is not None:
            marks.append(f"same as {first.last_segment}")
        level = len(path)
        path.append(seen.key)
        self._path = path
        return level, marks

    def _ancestors(self, key: ArtifactKey) -> list[ArtifactKey]:
        """Return the stored ancestors of the first line, from the top on: a page may begin anywhere."""
        found, above = [], key.parent
        while above is not None and above.depth >= self._top.depth:
            found += [glance.key for glance in self._reader.glance(above, depth=0)]
            above = above.parent
        return found[::-1]

    def _duration_ms(self, key: ArtifactKey) -> int | None:
        row = self._reader.find_run(key) if key.depth == 1 else None
        if row is not None and row.ended_ms is not None:
            return row.ended_ms - row.started_ms
        last = self._reader.last_key(key)
        return None if last is None or last == key else max(0, last.time_ms - key.time_ms)


def context_marks(metadata: bytes) -> list[str]:
    """Say where the context that a node got was empty, cut or had something left out."""
    if b'"context_manifest"' not in metadata:
        return []
    try:
        manifest = msgspec.json.decode(metadata, type=_Reported).context_manifest
    except NO_JSON:
        return []  # a manifest of somebody else's making, or damage, which verify names
    if manifest is None:
        return []
    cut, dropped = sum(1 for entry in manifest.entries if entry.dropped_chars), len(manifest.dropped_artifact_ids)
    marks = ["context empty"] if not manifest.included_count else []
    marks += [f"context cut: {cut} of {len(manifest.entries)}"] if cut else []
    return marks + ([f"context dropped: {dropped}"] if dropped else [])


def preview(seen: Glance, room: int) -> str:
    """Return how the content begins, in one line of at most `room` characters, with nothing that a terminal obeys."""
    text = " ".join(visible(_telling(seen)).split())
    return text if len(text) <= room else f"{text[: max(0, room - 1)]}…" if room > 0 else ""


def _telling(seen: Glance) -> str:
    fields = TELLING.get(seen.kind)
    if fields is not None and seen.size_bytes == len(seen.start):
        try:
            content = read_content(Record(seen.key, seen.kind, seen.start, seen.content_hash, seen.metadata))
        except SapwoodError:
            content = None  # verify says what is wrong with it; here it is shown as it is
        if isinstance(content, dict):
            return " ".join(_word(content[name]) for name in fields if content.get(name) is not None)
    return seen.start.decode(errors="replace")


def _word(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def human_duration(duration_ms: int) -> str:
    """Return a duration for people."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    return f"{duration_ms / 1000:.1f} s" if duration_ms < 120_000 else f"{duration_ms / 60_000:.1f} min"


def human_bytes(size_bytes: int) -> str:
    """Return a size for people."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes} B"
