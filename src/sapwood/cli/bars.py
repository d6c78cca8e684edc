"""How much of a limit is used, as a bar and in numbers."""

from __future__ import annotations

from typing import Final

BAR_CELLS: Final = 32


def bar(used: int, limit: int) -> str:
    """Return the bar; what is used at all shows."""
    cells = min(BAR_CELLS, -(-used * BAR_CELLS // limit)) if limit > 0 else 0
    return f"[{'#' * cells}{'.' * (BAR_CELLS - cells)}] {used:,} of {limit:,}"
