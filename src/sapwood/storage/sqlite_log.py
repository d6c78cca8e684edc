"""The write-ahead log as a file: it is made longer ahead of the commits, and watched.

A commit that lengthens the file waits for the file system's own journal too; one that overwrites zeros waits for its
bytes alone, about half as long. Frames of zeros are no frames to SQLite: it stops reading at the first.
SQLite holds no locks on this file, so opening and closing it does no harm, unlike the database file.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from sapwood.errors import StoreDamaged

FRAME_HEADER_BYTES: Final = 24
GROW_FROM_BYTES: Final = 256 * 1024  # a process that writes little never pays for it
ROOM_BYTES: Final = 256 * 1024
_ZEROS = bytes(1024 * 1024)


class WriteAheadLog:
    """The log of one store, as seen by its one writing connection."""

    def __init__(self, database: Path, page_bytes: int) -> None:
        self.pages = 0  # in the log after our last commit
        self._path = f"{database}-wal"
        self._frame_bytes = page_bytes + FRAME_HEADER_BYTES
        self._inode: int | None = None
        self._fd = -1
        self._size = 0

    def make_room(self) -> None:
        """Lengthen the log with zeros when the next commits would have to. Only while holding the write lock."""
        used = self.pages * self._frame_bytes
        if used < GROW_FROM_BYTES or self._size - used > ROOM_BYTES:
            return
        with suppress(OSError):  # without room commits are slower; what is really wrong, SQLite's own write will say
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
            self._size = os.fstat(self._fd).st_size  # never before the end of what any process wrote
            if self._size - used <= ROOM_BYTES:
                self._size += os.pwrite(self._fd, _ZEROS, self._size)

    def check(self, where: str) -> None:
        """Raise StoreDamaged when the log that other processes see is not the one that we write."""
        try:
            inode = os.stat(self._path).st_ino  # noqa: PTH116  # a Path object would cost more than the call
        except FileNotFoundError:
            inode = -1
        if self._inode is None:
            self._inode = inode
        if inode < 0 or inode != self._inode:
            raise StoreDamaged(where, "its write-ahead log was removed or replaced under us")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
