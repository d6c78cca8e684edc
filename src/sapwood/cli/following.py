"""Waits for a run of this process, shows it meanwhile, and leaves it whole when a person or the system says stop."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING

import click

from sapwood.cli.live import Display, Lines, Tree, note_of, summary_of, table_of
from sapwood.core.keys import ArtifactKey
from sapwood.runtime.overview import Overview, RunView

if TYPE_CHECKING:
    from sapwood.app.runner import Runner

EXIT_CODES = {"completed": 0, "failed": 1, "cancelled": 1, "paused": 4}
LOOK_S = 0.1
CLOCK_S = 0.5


class Stop(BaseException):
    """The process was asked to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn the first Ctrl-C or SIGTERM into Stop; once it is being obeyed, further ones change nothing."""

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise Stop(number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def follow(runner: Runner, submit: Callable[[], ArtifactKey], *, as_json: bool) -> int:
    """Submit a run, show it until it ends, say how it ended; return the exit code."""
    run: ArtifactKey | None = None
    try:
        with stoppable():
            try:
                run = submit()
                status = _wait(runner, run, as_json=as_json)
            finally:
                runner.close()
    except Stop as stop:
        if run is None:
            return stop.exit_code
        _report(Overview(runner.store).load(run), "interrupted", as_json=as_json)
        return stop.exit_code
    _report(Overview(runner.store).load(run), status, as_json=as_json)
    return EXIT_CODES[status]


def _wait(runner: Runner, run: ArtifactKey, *, as_json: bool) -> str:
    overview = Overview(runner.store)
    if as_json:
        return _look_on(runner, run, lambda: None)
    if not sys.stdout.isatty():
        lines: Display = Lines()
        click.echo(f"run {run}")
        return _look_on(runner, run, lambda: lines.show(overview.load(run)))
    tree = Tree(_console())
    with tree.live():
        return _look_on(runner, run, lambda: tree.show(overview.load(run)))


def _look_on(runner: Runner, run: ArtifactKey, show: Callable[[], None]) -> str:
    """Show the run whenever something was recorded, and now and then for the clock; return how it ended."""
    changed = threading.Event()
    leave = runner.store.subscribe(lambda _records: changed.set())
    quiet_s = CLOCK_S
    try:
        while True:
            if changed.is_set() or quiet_s >= CLOCK_S:
                changed.clear()
                quiet_s = 0.0
                show()
            status = runner.wait(run, LOOK_S)
            quiet_s += LOOK_S
            if status is not None:
                show()
                return status
    finally:
        leave()


def _report(view: RunView, status: str, *, as_json: bool) -> None:
    if as_json:
        nodes = [{**asdict(node), "answers": list(node.answers)} for node in view.nodes]
        click.echo(json.dumps({**asdict(view), "nodes": nodes, "status": status, "tokens": view.tokens}))
        return
    if sys.stdout.isatty():
        _console().print(table_of(view, _console()))
        click.echo(f"run {view.run}")
    else:
        click.echo(summary_of(view))
    for node in view.nodes:
        if node.question is not None:
            click.echo(f"{node.key} {note_of(node)}")
            click.echo(f"  sapwood answer {view.run} {node.key} {node.answers[0]}")
    if status in ("interrupted", "paused"):
        click.echo(f"{status}; go on with: sapwood resume {view.run}")
    else:
        click.echo(f"look at it with: sapwood show {view.run}")


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


if TYPE_CHECKING:
    from rich.console import Console
