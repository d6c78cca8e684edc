"""How much one rendering may use."""

from __future__ import annotations

from typing import Final

import msgspec

MIB: Final = 1024 * 1024
OUT_OF_MEMORY: Final = "out of memory"
"""The cause of the error for it: the one failure that a used child may have had no part in."""


class RenderLimits(msgspec.Struct, frozen=True):
    """What a rendering may use; time and memory bind only in the child process."""

    output_bytes: int = MIB
    cpu_s: float = 1.0
    wall_s: float = (
        5.0  # only a backstop: a template can wait for nothing, so it cannot stop without using the processor
    )
    memory_bytes: int = 512 * MIB
