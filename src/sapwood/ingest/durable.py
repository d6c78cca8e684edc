"""Bring what was written to the disk: a few files one by one, many of one document together."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

FEW_FILES: Final = 4  # up to here single syncs cost less than one of the whole file system


@dataclass(frozen=True, slots=True)
class Sync:
    """How to sync one descriptor, and all of its file system (None where the system has no such call)."""

    one: Callable[[int], None]
    all_beside: Callable[[int], None] | None

    def is_grouped(self, count: int) -> bool:
        """Tell whether `count` files are synced by one call."""
        return self.all_beside is not None and count > FEW_FILES

    def together(self, fds: Iterable[int]) -> None:
        """Sync the file systems of these descriptors, each once."""
        assert self.all_beside is not None
        by_device = {os.fstat(fd).st_dev: fd for fd in fds}
        for fd in by_device.values():
            self.all_beside(fd)


def real_sync() -> Sync:
    """Return the system's own calls."""
    if not sys.platform.startswith("linux"):
        return Sync(os.fsync, None)
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return Sync(os.fsync, None)

    def all_beside(fd: int) -> None:
        if call(fd) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    return Sync(os.fsync, all_beside)
