"""Node keys: names that can stand in a header line, a file name and a URL without being mistaken for anything else."""

from __future__ import annotations

import re
from typing import Final

MAX_NODE_KEY_CHARS: Final = 128
NODE_KEY: Final = re.compile(f"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_NODE_KEY_CHARS - 1}}}")


def is_node_key(value: object) -> bool:
    """Tell whether `value` is a valid node key."""
    return isinstance(value, str) and NODE_KEY.fullmatch(value) is not None
