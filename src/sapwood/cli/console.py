"""The console that every table, tree and drawing is printed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from rich.console import Console


def plain_console(width: int | None = None) -> Console:
    """Return a console that takes no text for markup; a reader that has gone is told as for all other output."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> NoReturn:  # rich would end the process with 1, which says no
            self.quiet = True
            raise BrokenPipeError

    return Plain(highlight=False, markup=False, emoji=False, width=width)
