"""The files of one call on their way to the disk: stage beside the target, sync together, rename, sync."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from sapwood.core.hashing import hash_bytes
from sapwood.core.paths import collision_key
from sapwood.ingest.beneath import READ, Blocked, Opener, blocked_by, names_in, open_directory
from sapwood.ingest.durable import Sync

_MAX_OPEN_DIRECTORIES: Final = 128
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK_BYTES: Final = 1 << 20

Parts = tuple[str, ...]
Keep = Callable[[int, bool], str]
"""Keeps what an open file holds and returns its hash; syncs it unless told that this comes later."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A file to write: its parts below the root, its bytes, and, to put back what was there, its old permissions."""

    parts: Parts
    data: bytes
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class Previous:
    """What a path held before it was written."""

    sha256: str
    size_bytes: int
    mode: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a draft: `reason` is empty when it is on the disk, synced."""

    reason: str = ""
    previous: Previous | None = None


@dataclass(slots=True)
class _Staged:
    """A draft whose bytes are in a temporary file."""

    index: int
    parts: Parts
    temporary: str
    previous: Previous | None


@dataclass(slots=True)
class Staging:
    """The drafts of one call below one root (-1: not there). Without `keep` nothing is written, only judged.

    `sync_fds` are descriptors of what else must reach the disk with the files: what is kept, and a new root's parent.
    """

    root_fd: int
    drafts: Sequence[Draft]
    keep: Keep | None
    opener: Opener
    sync: Sync
    temporary_name: Callable[[], str]
    sync_fds: tuple[int, ...]
    outcomes: list[Outcome] = field(init=False)
    made: list[Parts] = field(default_factory=list)
    _directories: dict[Parts, int] = field(default_factory=dict)
    _names: dict[Parts, dict[str, set[str]]] = field(default_factory=dict)
    _files: set[Parts] = field(default_factory=set)
    _folders: set[Parts] = field(default_factory=set)
    _staged: list[_Staged] = field(default_factory=list)
    _is_grouped: bool = field(init=False)

    def __post_init__(self) -> None:
        self.outcomes = [Outcome("io_error: not tried")] * len(self.drafts)
        self._is_grouped = self.sync.is_grouped(len(self.drafts))

    def run(self) -> None:
        for index, draft in enumerate(self.drafts):
            try:
                self.outcomes[index] = self._stage(index, draft)
            except Blocked as blocked:
                self.outcomes[index] = Outcome(blocked.reason)
            except OSError as error:
                self.outcomes[index] = Outcome(blocked_by(error).reason)
            if len(self._directories) > _MAX_OPEN_DIRECTORIES:
                self._commit()
        self._commit()

    def close(self) -> None:
        """Let go of everything; removes what an exception left half done."""
        for staged in self._staged:
            _remove(self._directory(staged.parts[:-1]), staged.temporary)
        self._close_directories()

    def _close_directories(self) -> None:
        for fd in self._directories.values():
            os.close(fd)
        self._directories.clear()

    def _stage(self, index: int, draft: Draft) -> Outcome:
        """Check the way to the target, keep what is there, and write the bytes beside it."""
        *above, name = draft.parts
        parent = tuple(above)
        self._refuse_planned(draft.parts)
        directory = self._directory(parent)
        self._refuse_collision(parent, name)
        previous = self._previous(directory, name, draft) if directory >= 0 else None
        if isinstance(previous, Outcome):
            return previous
        if self.keep is not None:
            temporary = self._write_temporary(directory, draft, previous)
            self._staged.append(_Staged(index, draft.parts, temporary, previous))
        self._plan(draft.parts)
        return Outcome("", previous)

    def _refuse_planned(self, parts: Parts) -> None:
        """Refuse what an earlier draft of this call, not yet on the disk, is in the way of."""
        if any(parts[:length] in self._files for length in range(1, len(parts))):
            raise Blocked("parent_not_directory")
        if parts in self._folders:
            raise Blocked("is_directory")

    def _plan(self, parts: Parts) -> None:
        self._files.add(parts)
        for length in range(len(parts)):
            self._folders.add(parts[:length])
            self._names_in(parts[:length]).setdefault(collision_key(parts[length]), set()).add(parts[length])

    def _directory(self, parts: Parts) -> int:
        """Return a descriptor of the directory, made if need be; -1 when it is not there and nothing is written."""
        if not parts or self.root_fd < 0:
            return self.root_fd
        if parts in self._directories:
            return self._directories[parts]
        above = self._directory(parts[:-1])
        self._refuse_collision(parts[:-1], parts[-1])
        if above < 0:
            return -1
        try:
            fd = open_directory(self.opener, above, parts[-1])
        except FileNotFoundError:
            if self.keep is None:
                return -1
            fd = self._made_directory(above, parts)
        self._directories[parts] = fd
        return fd

    def _made_directory(self, above: int, parts: Parts) -> int:
        with suppress(FileExistsError):
            os.mkdir(parts[-1], 0o755, dir_fd=above)
            self.made.append(parts)
            self._names_in(parts[:-1]).setdefault(collision_key(parts[-1]), set()).add(parts[-1])
        return open_directory(self.opener, above, parts[-1])

    def _names_in(self, parts: Parts) -> dict[str, set[str]]:
        """Return the names in a directory, by what they share with names that differ only by case."""
        names = self._names.get(parts)
        if names is None:
            names = self._names[parts] = {}
            fd = self._directories.get(parts, -1) if parts else self.root_fd
            for name in names_in(fd) if fd >= 0 else ():
                names.setdefault(collision_key(name), set()).add(name)
        return names

    def _refuse_collision(self, parent: Parts, name: str) -> None:
        same = self._names_in(parent).get(collision_key(name))
        if same and name not in same:
            raise Blocked("case_collision")

    def _previous(self, directory: int, name: str, draft: Draft) -> Previous | Outcome | None:
        """Keep what the target holds; an Outcome says that nothing is to be done."""
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        _refuse_kind(found.st_mode)
        fd = self.opener(directory, name, READ)
        try:
            found = os.fstat(fd)
            _refuse_kind(found.st_mode)
            if found.st_nlink == 1 and found.st_size == len(draft.data) and read_all(fd) == draft.data:
                return Outcome("unchanged")
            os.lseek(fd, 0, os.SEEK_SET)
            sha256 = hash_bytes(read_all(fd)) if self.keep is None else self.keep(fd, self._is_grouped)
            return Previous(sha256, found.st_size, stat.S_IMODE(found.st_mode))
        finally:
            os.close(fd)

    def _write_temporary(self, directory: int, draft: Draft, previous: Previous | None) -> str:
        # Never executable, never writable by others; and no easier to read than what it replaces.
        mode = 0o644 if previous is None else 0o600 | previous.mode & 0o044
        temporary = self.temporary_name()
        fd = os.open(temporary, _CREATE, mode, dir_fd=directory)
        try:
            write_all(fd, draft.data)
            if draft.mode is not None:
                os.fchmod(fd, draft.mode & 0o777)
            if not self._is_grouped:
                self.sync.one(fd)
        except BaseException:
            _remove(directory, temporary)
            raise
        finally:
            os.close(fd)
        return temporary

    def _commit(self) -> None:
        """Sync the temporary files, rename them, sync their directories; then let go of the directories."""
        try:
            self._sync_files()
            for staged in self._staged:
                self._rename(staged)
            self._sync_directories()
        except OSError as error:
            for staged in self._staged:
                _remove(self._directory(staged.parts[:-1]), staged.temporary)
                self.outcomes[staged.index] = Outcome(f"{blocked_by(error).reason}, not synced")
        self._staged.clear()
        self._close_directories()

    def _sync_files(self) -> None:
        if self._staged and self._is_grouped:
            self.sync.together((self.root_fd, *self.sync_fds))

    def _rename(self, staged: _Staged) -> None:
        directory = self._directory(staged.parts[:-1])
        try:
            os.rename(staged.temporary, staged.parts[-1], src_dir_fd=directory, dst_dir_fd=directory)
        except OSError as error:
            _remove(directory, staged.temporary)
            self.outcomes[staged.index] = Outcome(f"io_error: {blocked_by(error).reason.removeprefix('io_error: ')}")

    def _sync_directories(self) -> None:
        if not self._staged:
            return
        if self._is_grouped:
            self.sync.together((self.root_fd, *self.sync_fds))
            return
        touched = {staged.parts[:-1] for staged in self._staged} | {parts[:-1] for parts in self.made}
        for parts in touched:
            self.sync.one(self._directory(parts))
        for fd in self.sync_fds:
            self.sync.one(fd)


def _refuse_kind(mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise Blocked("symlink")
    if stat.S_ISDIR(mode):
        raise Blocked("is_directory")
    if not stat.S_ISREG(mode):
        raise Blocked("not_regular")


def _remove(directory: int, name: str) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=directory)


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`; a write may take only a part of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_all(fd: int) -> bytes:
    """Return what an open file holds from here on."""
    pieces = []
    while piece := os.read(fd, _CHUNK_BYTES):
        pieces.append(piece)
    return b"".join(pieces)
