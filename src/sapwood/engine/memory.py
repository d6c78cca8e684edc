"""How this process's memory behaves while runs come and go: large texts go back to the system when they are done with.

glibc keeps what is freed in one pool a thread, and puts ever larger blocks into those pools once it has seen one.
A run that hands on texts of megabytes then holds several times what it uses. Elsewhere there is nothing to set.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
LARGE_BYTES: Final = 256 * 1024
POOLS: Final = 2


def give_back_large_blocks() -> None:
    """Have blocks from 256 KB on taken from the system and given back to it, and few pools for the smaller ones."""
    with suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(M_ARENA_MAX, POOLS)
