"""A progress bar for work that counts artifacts: on the terminal's error output, and only where somebody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

STEP: Final = 256  # a bar that moved for each artifact would cost more than the work


@contextmanager
def counting(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how many are done."""
    if not sys.stderr.isatty() or total < STEP:
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)

        def done(count: int) -> None:
            if count % STEP == 0:
                bar.update(task, completed=count)

        yield done
