"""Put back what one document replaced: earlier contents again, new files gone, files changed since left alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sapwood.core.hashing import hash_bytes
from sapwood.errors import NotFound
from sapwood.ingest.beneath import Blocked
from sapwood.ingest.records import MANIFESTS, UNDO, Objects, load_own
from sapwood.ingest.staging import Draft, Parts, Previous, read_all
from sapwood.ingest.workspace import WORKSPACE, Project


class _File(msgspec.Struct, frozen=True):
    index: int
    parts: tuple[str, ...]
    sha256: str
    previous: Previous | None


class _UndoRecord(msgspec.Struct, frozen=True):
    files: tuple[_File, ...]
    made: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Undone:
    """What became of one file: `restored`, `removed`, or why it was left alone."""

    parts: Parts
    what: str


def undo_manifest(project_dir: str | os.PathLike[str], manifest: str | os.PathLike[str]) -> list[Undone]:
    """Undo the document of this manifest, once; raise NotFound when there is nothing kept for it."""
    path = Path(manifest)
    run, name = path.parent.name, path.name.removesuffix(".json")
    try:
        with Project(project_dir) as project:
            load_own(project, (*MANIFESTS, run), path.name)
            record = msgspec.json.decode(load_own(project, (*UNDO, run), name), type=_UndoRecord)
            done = [_undo_file(project, file) for file in reversed(record.files)]
            for parts in reversed(record.made):
                project.remove_if_empty(WORKSPACE, parts)
            if all(undone.what in ("restored", "removed") for undone in done):
                _mark_undone(project, run, name)
            return done
    except FileNotFoundError:
        raise NotFound(f"what {path.name} replaced", "nothing was written, or it is undone already") from None
    except Blocked as blocked:
        raise NotFound(f"what {path.name} replaced", blocked.reason) from None


def _undo_file(project: Project, file: _File) -> Undone:
    try:
        if hash_bytes(project.read(WORKSPACE, file.parts)) != file.sha256:
            return Undone(file.parts, "changed since, left alone")
        if file.previous is None:
            project.remove(WORKSPACE, file.parts)
            return Undone(file.parts, "removed")
        return Undone(file.parts, _restore(project, file.parts, file.previous))
    except FileNotFoundError:
        return Undone(file.parts, "gone, left alone")
    except Blocked as blocked:
        return Undone(file.parts, f"{blocked.reason}, left alone")


def _restore(project: Project, parts: Parts, previous: Previous) -> str:
    draft = Draft(parts, Objects(project).load(previous.sha256), previous.mode)
    outcomes, _ = project.write(WORKSPACE, [draft], lambda fd, _: hash_bytes(read_all(fd)))
    return "restored" if outcomes[0].reason in ("", "unchanged") else f"{outcomes[0].reason}, left alone"


def _mark_undone(project: Project, run: str, name: str) -> None:
    with suppress(OSError), project.opened((*UNDO, run)) as folder:
        os.rename(name, f"{name}.undone", src_dir_fd=folder, dst_dir_fd=folder)


def is_undone(project: Project, run: str, name: str) -> bool:
    """Tell whether the document of this manifest was undone."""
    try:
        load_own(project, (*UNDO, run), f"{name}.undone")
    except (OSError, Blocked):
        return False
    return True


def undone_paths(done: Sequence[Undone]) -> list[tuple[str, str]]:
    """Return path and outcome of each file, as people read them."""
    return [("/".join((WORKSPACE, *undone.parts)), undone.what) for undone in done]
