"""Who is alive: every engine process leases a slot of its own, a file it keeps locked until it ends.

The lock goes with the process, however that ends. A slot's name is never used twice, so no process can be taken for
another one, and what a dead one left behind is never picked up by accident.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Slot:
    """A leased slot; its name is the engine's executor id."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.name = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._path = folder / f"{self.name}.lock"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Give the slot back; its name is gone for good."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)


@contextmanager
def hold_if_dead(folder: Path, name: str) -> Iterator[bool]:
    """Tell whether the owner of slot `name` is dead; while the block runs, nobody else is told so."""
    try:
        file = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # the whole folder is gone
        yield True
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(file)


def forget(folder: Path, name: str) -> None:
    """Remove what is left of a dead slot that owns nothing any more."""
    (folder / f"{name}.lock").unlink(missing_ok=True)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Run the block while no other process runs one under the same path."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
