"""The only writer of agents' files: below `workspace/`, `docs/` and `audits/` of one project, and nowhere else.

Every directory on the way is opened by descriptor (see `beneath`). A file is written under a temporary name beside
its target, synced, renamed over it, and the directory synced; only then it counts as written. The files of one call
are synced together. A marker with a lock says that a writer lives; what a dead one left is removed at the next start.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sapwood.core.outputs import DOCUMENT_ROOTS
from sapwood.ingest.beneath import DIRECTORY, READ, Blocked, Opener, best_opener, blocked_by, names_in, open_directory
from sapwood.ingest.durable import Sync, real_sync
from sapwood.ingest.staging import Draft, Keep, Outcome, Parts, Staging, read_all

WORKSPACE: Final = "workspace"
OWN: Final = ".sapwood"
AGENT_ROOTS: Final = (WORKSPACE, *DOCUMENT_ROOTS)
_PENDING: Final = (OWN, "pending")


class Project:
    """One project directory, held open; use it in a `with`, one thread at a time."""

    def __init__(self, directory: str | os.PathLike[str], *, opener: Opener | None = None, sync: Sync | None = None):
        self.directory = Path(directory)
        self.opener = opener or best_opener()
        self.sync = sync or real_sync()
        self.id = secrets.token_hex(8)
        self.fd = -1
        self._marker = -1
        self._count = 0

    def __enter__(self) -> Project:
        try:
            self.fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise Blocked("workspace_root: no project directory") from None
        except OSError as error:
            raise blocked_by(error) from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._marker >= 0:
            with suppress(OSError, Blocked), self.opened(_PENDING) as pending:
                os.unlink(self.id, dir_fd=pending)
            os.close(self._marker)
        os.close(self.fd)

    @contextmanager
    def opened(self, parts: Parts, *, create: bool = False) -> Iterator[int]:
        """Give a descriptor of the directory `parts` below the project; raise FileNotFoundError or Blocked."""
        fd = os.dup(self.fd)
        try:
            for place, name in enumerate(parts):
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o755, dir_fd=fd)
                child = open_directory(_open_root if not place and name in AGENT_ROOTS else self.opener, fd, name)
                os.close(fd)
                fd = child
            yield fd
        finally:
            os.close(fd)

    def read(self, root: str, parts: Parts) -> bytes:
        """Return what a file below `root` holds; raise FileNotFoundError, Blocked or OSError."""
        with self.opened((root, *parts[:-1])) as folder:
            fd = self.opener(folder, parts[-1], READ)
            try:
                return read_all(fd)
            finally:
                os.close(fd)

    def remove(self, root: str, parts: Parts) -> None:
        """Remove a file below `root`, synced; raise FileNotFoundError, Blocked or OSError."""
        with self.opened((root, *parts[:-1])) as folder:
            os.unlink(parts[-1], dir_fd=folder)
            self.sync.one(folder)

    def remove_if_empty(self, root: str, parts: Parts) -> None:
        """Remove a directory below `root` unless something is in it."""
        with suppress(OSError, Blocked), self.opened((root, *parts[:-1])) as folder:
            os.rmdir(parts[-1], dir_fd=folder)

    def start_writing(self) -> None:
        """Mark this writer as alive, and remove what dead ones left; called before the first temporary file."""
        if self._marker >= 0:
            return
        with self.opened(_PENDING, create=True) as pending:
            while self._marker < 0:
                fd = os.open(self.id, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=pending)
                fcntl.flock(fd, fcntl.LOCK_EX)
                if os.fstat(fd).st_nlink:  # else another start took the marker for a dead one's before it was locked
                    self._marker = fd
                else:
                    os.close(fd)
            self._remove_leftovers(pending)

    def temporary_name(self) -> str:
        """Return a name that no other writer uses and that the next start recognises."""
        self._count += 1
        return f".sapwood-{self.id}-{self._count}.tmp"

    def _remove_leftovers(self, pending: int) -> None:
        dead = {name: fd for name in names_in(pending) if name != self.id and (fd := _lock_of(pending, name)) >= 0}
        if not dead:
            return
        prefixes = tuple(f".sapwood-{name}-" for name in dead)
        try:
            is_clean = True
            for root in (*AGENT_ROOTS, OWN):
                is_clean &= self._remove_files(root, prefixes)
            for name in dead if is_clean else ():  # else the next writer tries again
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=pending)
        finally:
            for fd in dead.values():
                os.close(fd)

    def _remove_files(self, root: str, prefixes: tuple[str, ...]) -> bool:
        """Remove the temporary files with these beginnings; tell whether none is left."""
        is_clean = True
        waiting: list[Parts] = [(root,)]
        while waiting:
            parts = waiting.pop()
            with suppress(FileNotFoundError, Blocked), self.opened(parts) as fd, os.scandir(fd) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((*parts, entry.name))
                    elif entry.name.startswith(prefixes) and entry.name.endswith(".tmp"):
                        is_clean &= _is_removed(fd, entry.name)
        return is_clean

    def write(self, root: str, drafts: Sequence[Draft], keep: Keep | None = None) -> tuple[list[Outcome], list[Parts]]:
        """Write `drafts` below `root`, in order; return one outcome each, and the directories that were made.

        `keep` is called with each file that is about to be replaced. Without it nothing is written: the outcomes say
        what would happen.
        """
        try:
            if keep is not None:
                self.start_writing()
            root_fd, is_new = self._open_root(root, create=keep is not None)
        except Blocked as blocked:
            return [Outcome(blocked.reason)] * len(drafts), []
        except OSError as error:
            return [Outcome(blocked_by(error).reason)] * len(drafts), []
        # What is kept lies below the project; a root may be a mount, which is synced by itself.
        beside = (self.fd,) if is_new or self.sync.is_grouped(len(drafts)) else ()
        staging = Staging(root_fd, drafts, keep, self.opener, self.sync, self.temporary_name, beside)
        try:
            staging.run()
        finally:
            staging.close()
            if root_fd >= 0:
                os.close(root_fd)
        return staging.outcomes, staging.made

    def _open_root(self, root: str, *, create: bool) -> tuple[int, bool]:
        """Open a root directory (-1 if there is none) and tell whether it is new; it may be a mount, never a link."""
        is_new = False
        if create:
            with suppress(FileExistsError):
                os.mkdir(root, 0o755, dir_fd=self.fd)
                is_new = True
        try:
            return _open_root(self.fd, root, DIRECTORY), is_new
        except FileNotFoundError:
            return -1, False
        except OSError as error:
            blocked = blocked_by(error)  # a link and a file give the same two errors here
            raise Blocked("workspace_root") if blocked.reason == "symlink" else blocked from None


def _open_root(dir_fd: int, name: str, flags: int) -> int:
    """Open a root directory: it may be a mount, never a link."""
    return os.open(name, flags | os.O_NOFOLLOW, dir_fd=dir_fd)


def _is_removed(folder: int, name: str) -> bool:
    """Remove a file that may be gone; False when it cannot be removed."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _lock_of(pending: int, name: str) -> int:
    """Return the locked marker of a dead writer, or -1 when its writer lives, or has just ended in good order."""
    try:
        fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=pending)
    except OSError:
        return -1
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_left = os.fstat(fd).st_nlink > 0
    except OSError:
        is_left = False
    if is_left:
        return fd
    os.close(fd)
    return -1
