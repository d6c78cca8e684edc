"""How much one rendering may use."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

MIB: Final = 1024 * 1024
MAX_DIGITS: Final = 4300  # of an integer that becomes text: Python's own limit, unless the environment sets another
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

    def of_a_repetition(self) -> RenderLimits:
        """Return the limits for what has been rendered once: a trusted render had none on its time and memory."""
        return replace(self, cpu_s=10 * self.cpu_s, wall_s=10 * self.wall_s, memory_bytes=4 * self.memory_bytes)
