"""Rows and counts for people: a table where it fits the terminal, else each row as a few lines, nothing shortened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

GAP: Final = 2


def counted(number: int, one: str, many: str = "") -> str:
    """Return `1 node`, `2 nodes`, or with another plural that one."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def print_rows(console: Console, titles: Sequence[str], rows: Sequence[Sequence[str]], named: int = 2) -> None:
    """Print the rows; in a narrow terminal the first `named` cells stand alone, the others below with their titles."""
    from rich.cells import cell_len
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    widths = [max(cell_len(cell) for cell in column) for column in zip(titles, *rows, strict=True)]
    if sum(widths) + GAP * (len(widths) - 1) <= console.width:
        table = Table(*titles, box=None, pad_edge=False, padding=(0, GAP, 0, 0))
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table)
        return
    for row in rows:
        console.print(Text("  ".join(row[:named])), soft_wrap=True)
        below = [f"{title}: {cell}" for title, cell in zip(titles[named:], row[named:], strict=True) if cell]
        console.print(Padding(Text(", ".join(below), overflow="fold"), (0, 0, 0, 3), expand=False))
