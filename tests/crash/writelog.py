"""The write log of a process, and the folders that a power cut could have left behind.

What was synced is certain. Of the writes since the last sync of their file any part may have reached the disk, in any
order, torn at sectors of 512 bytes. Changes of names become certain when their folder is synced; until then any
beginning of them, in order, may have happened, as on a journalling file system.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

HEADER = struct.Struct("=BBHIq")
SECTOR_BYTES = 512


@dataclass(frozen=True, slots=True)
class Event:
    """One call: `w`rite, `t`runcate, `s`ync, `c`reate, `u`nlink, `r`ename or `a`cknowledge."""

    op: str
    path: Path
    offset: int
    data: bytes


class Luck(Enum):
    """How much of what was not synced is on the disk."""

    NONE = "none"
    ALL = "all"
    SUBSET = "subset"
    TORN = "torn"


def read_log(path: Path) -> list[Event]:
    """Return every event of a log, in order; a beginning of an event at the end is left out."""
    raw = path.read_bytes()
    events, at = [], 0
    while at + HEADER.size <= len(raw):
        op, _, path_len, data_len, offset = HEADER.unpack_from(raw, at)
        at += HEADER.size
        name = raw[at : at + path_len].decode()
        data = raw[at + path_len : at + path_len + data_len]
        at += path_len + data_len
        if at <= len(raw):
            events.append(Event(chr(op), Path(name), offset, data))
    return events


@dataclass(eq=False)
class File:
    """The certain bytes of a file, and the writes since."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[Event] = field(default_factory=list)

    def sync(self) -> None:
        for event in self.pending:
            apply(self.synced, event)
        self.pending.clear()

    def after_cut(self, luck: Luck, rng: random.Random) -> bytes:
        content = bytearray(self.synced)
        for event in self.pending:
            for part in survivors(event, luck, rng):
                apply(content, part)
        return bytes(content)


def apply(content: bytearray, event: Event) -> None:
    """Do a write or a truncation."""
    if event.op == "t":
        del content[event.offset :]
        content.extend(bytes(event.offset - len(content)))
        return
    if len(content) < event.offset:
        content.extend(bytes(event.offset - len(content)))
    content[event.offset : event.offset + len(event.data)] = event.data


def survivors(event: Event, luck: Luck, rng: random.Random) -> Iterator[Event]:
    """Yield the parts of an unsynced call that reached the disk."""
    if luck is Luck.ALL or (luck is Luck.SUBSET and rng.random() < 0.5):
        yield event
    elif luck is Luck.TORN and event.op == "t":
        if rng.random() < 0.5:
            yield event
    elif luck is Luck.TORN:
        at, end = event.offset, event.offset + len(event.data)
        while at < end:
            stop = min(end, at - at % SECTOR_BYTES + SECTOR_BYTES)
            if rng.random() < 0.5:
                yield Event("w", event.path, at, event.data[at - event.offset : stop - event.offset])
            at = stop


def rename(names: dict[Path, File], event: Event, created: File) -> None:
    """Do a change of names: make, remove or rename."""
    if event.op == "c":
        names[event.path] = created
    elif event.op == "u":
        names.pop(event.path, None)
    elif event.path in names:
        names[Path(event.data.decode())] = names.pop(event.path)


class Disk:
    """What is certain and what is not, while the events of a log pass by."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.acknowledged: list[bytes] = []
        self._live: dict[Path, File] = {}
        self._certain: dict[Path, File] = {}
        self._names: list[tuple[Event, File]] = []  # changes of names whose folder was not synced yet

    def pass_by(self, event: Event) -> None:
        if event.op == "a":
            self.acknowledged.append(event.data)
        elif event.op == "s":
            self._sync(event.path)
        elif event.op in "cur":
            file = File()
            rename(self._live, event, file)
            self._names.append((event, file))
        else:
            self._live[event.path].pending.append(event)

    def _sync(self, path: Path) -> None:
        if path in self._live:
            self._live[path].sync()
            return
        for event, file in self._names:
            if event.path.parent == path:
                rename(self._certain, event, file)
        self._names = [(event, file) for event, file in self._names if event.path.parent != path]

    def write_after_cut(self, target: Path, luck: Luck, rng: random.Random) -> None:
        """Build the folder as the next start finds it."""
        names = dict(self._certain)
        happened = {Luck.NONE: 0, Luck.ALL: len(self._names)}.get(luck, rng.randint(0, len(self._names)))
        for event, file in self._names[:happened]:
            rename(names, event, file)
        target.mkdir(parents=True)
        for path, file in names.items():
            place = target / path.relative_to(self.folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.after_cut(luck, rng))
