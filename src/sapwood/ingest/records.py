"""What ingest itself writes below `.sapwood/`: manifests, the undo records beside them, kept contents, and events.

    ingest/<run>/<node>-<attempt>-<n>.json    the manifest
    undo/<run>/<node>-<attempt>-<n>           what that document replaced, so that it can be put back
    undo/objects/<sha256>                     the replaced contents
    events.jsonl                              one object a line, appended

All of it is reached by descriptor like the agents' files, and readable by the owner alone.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final

import msgspec

from sapwood.core.redact import redact
from sapwood.ingest.beneath import READ, names_in
from sapwood.ingest.staging import Parts, read_all, write_all
from sapwood.ingest.workspace import OWN, Project

MANIFESTS: Final = (OWN, "ingest")
UNDO: Final = (OWN, "undo")
OBJECTS: Final = (*UNDO, "objects")
EVENTS: Final = "events.jsonl"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_CHUNK_BYTES: Final = 1 << 20


def file_safe(name: str) -> str:
    """Return a file name for a run or node id: itself where that is plain, else a short form with a hash."""
    name = redact(name).removeprefix("ak:")
    plain = _UNSAFE.sub("_", name)
    if plain == name and 0 < len(name) <= 128 and name[0] not in ".-":
        return name
    digest = sha256(name.encode("utf-8", "backslashreplace")).hexdigest()
    return f"{plain[:80].lstrip('.-')}_{digest[:12]}"


class Objects:
    """Keeps the contents that are about to be replaced, each once, by hash."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def keep(self, source: int, is_synced_later: bool) -> str:
        """Copy an open file and return the hash of what it held."""
        temporary = self._project.temporary_name()
        with self._project.opened(OBJECTS, create=True) as folder:
            fd = os.open(temporary, _NEW, 0o600, dir_fd=folder)
            try:
                digest = sha256()
                while piece := os.read(source, _CHUNK_BYTES):
                    digest.update(piece)
                    write_all(fd, piece)
                if not is_synced_later:
                    self._project.sync.one(fd)
                os.rename(temporary, digest.hexdigest(), src_dir_fd=folder, dst_dir_fd=folder)
                if not is_synced_later:
                    self._project.sync.one(folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            finally:
                os.close(fd)
        return digest.hexdigest()

    def load(self, content_hash: str) -> bytes:
        """Return kept contents; raise FileNotFoundError when they are gone."""
        return load_own(self._project, OBJECTS, content_hash)


def save_pair(
    project: Project, run: str, stem: str, manifest: Mapping[str, Any], undo: Mapping[str, Any] | None
) -> str:
    """Save manifest and undo record (if there is one) under the next free number.

    Returns the manifest's path below the project. The undo record is there first: a manifest that exists can be undone.
    """
    number = _next_number(project, run, stem)
    while True:
        name = f"{stem}-{number}"
        if undo is None or save_own(project, (*UNDO, run), name, encode(undo)):
            if save_own(project, (*MANIFESTS, run), f"{name}.json", encode(manifest)):
                return "/".join((*MANIFESTS, run, f"{name}.json"))
            with suppress(OSError), project.opened((*UNDO, run)) as folder:
                os.unlink(name, dir_fd=folder)
        number += 1


def _next_number(project: Project, run: str, stem: str) -> int:
    form = re.compile(re.escape(stem) + r"-([0-9]{1,9})(?:\.json)?")
    numbers = [0]
    for root in (MANIFESTS, UNDO):
        with suppress(FileNotFoundError), project.opened((*root, run)) as folder:
            numbers += [int(found[1]) for name in names_in(folder) if (found := form.fullmatch(name))]
    return max(numbers) + 1


def save_own(project: Project, folder_parts: Parts, name: str, data: bytes) -> bool:
    """Write a file of our own, synced, under a name that is still free; False when it is taken."""
    project.start_writing()
    temporary = project.temporary_name()
    with project.opened(folder_parts, create=True) as folder:
        fd = os.open(temporary, _NEW, 0o600, dir_fd=folder)
        try:
            write_all(fd, data)
            project.sync.one(fd)
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            return False
        finally:
            os.close(fd)
            os.unlink(temporary, dir_fd=folder)
        project.sync.one(folder)
    return True


def load_own(project: Project, folder_parts: Parts, name: str) -> bytes:
    """Read a file of our own; raise FileNotFoundError."""
    with project.opened(folder_parts) as folder:
        fd = project.opener(folder, name, READ)
        try:
            return read_all(fd)
        finally:
            os.close(fd)


def append_events(project: Project, events: Sequence[Mapping[str, Any]]) -> None:
    """Append one line an event; a line that a crash cut short is removed first."""
    lines = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
    with project.opened((OWN,), create=True) as folder:
        fd = os.open(EVENTS, _APPEND, 0o600, dir_fd=folder)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        _drop_torn_line(fd)
        write_all(fd, lines)
    finally:
        os.close(fd)


def _drop_torn_line(fd: int) -> None:
    size = end = os.fstat(fd).st_size
    while end > 0:
        start = max(0, end - 4096)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end != size:
        os.ftruncate(fd, end)


def encode(value: Mapping[str, Any]) -> bytes:
    """Return readable JSON in the order of the given keys."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
