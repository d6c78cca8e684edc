"""Waits for a run of this process, shows it meanwhile, and leaves it whole when a person or the system says stop."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import click

from sapwood.cli.live import Display, Lines, Tree, lines_of, summary_of
from sapwood.core.keys import ArtifactKey
from sapwood.runtime.overview import Overview, RunView

if TYPE_CHECKING:
    from sapwood.app.runner import Runner

EXIT_CODES = {"completed": 0, "failed": 1, "cancelled": 1, "paused": 4}
LOOK_S = 0.1
CLOCK_S = 0.5


class Stop(Exception):
    """The process was asked to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


class Stops:
    """Ctrl-C and SIGTERM, noted and not acted upon before `check`: nothing is left half drawn or half recorded."""

    def __init__(self) -> None:
        self._number: int | None = None

    def check(self) -> None:
        if self._number is not None:
            raise Stop(self._number)

    def note(self, number: int, _frame: FrameType | None) -> None:
        self._number = self._number or number


@contextmanager
def stoppable() -> Iterator[Stops]:
    """Take the two signals over for a while; once one is being obeyed, further ones change nothing."""
    stops = Stops()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, stops.note) for number in numbers]
    try:
        yield stops
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


class Seen(NamedTuple):
    """A run as this process leaves it, and the exit code that says so."""

    run_key: ArtifactKey
    view: RunView
    exit_code: int


def follow(runner: Runner, submit: Callable[[], ArtifactKey], *, as_json: bool) -> int:
    """Submit a run, show it until it ends, say how it ended; return the exit code."""
    seen = watch(runner, submit, is_quiet=as_json)
    report(seen.view, as_json=as_json)
    return seen.exit_code


def watch(runner: Runner, submit: Callable[[], ArtifactKey], *, is_quiet: bool) -> Seen:
    """Submit a run and show it until it ends, or until this process is told to stop; the runner is closed then."""
    run: ArtifactKey | None = None
    try:
        with stoppable() as stops:
            try:
                run = submit()
                status = _wait(runner, run, stops, is_quiet=is_quiet)
            finally:
                runner.close()
    except Stop as stop:
        assert run is not None
        seen = Seen(run, as_left(Overview(runner.store).load(run)), stop.exit_code)
    else:
        seen = Seen(run, Overview(runner.store).load(run), EXIT_CODES[status])
    if not is_quiet:
        show_last(seen.view)
    return seen


def show_last(view: RunView) -> None:
    """Print the run as it stays on the screen."""
    if sys.stdout.isatty():
        console = _console()
        console.print(*lines_of(view, console), sep="\n", soft_wrap=True)
        click.echo(f"run {view.run}")
    else:
        click.echo(summary_of(view))


def as_left(view: RunView) -> RunView:
    """Return the run as it stands once this process, which is about to end, has left it."""
    nodes = [replace(node, status="interrupted") if node.status == "running" else node for node in view.nodes]
    return replace(view, status="interrupted", nodes=tuple(nodes))


def _wait(runner: Runner, run: ArtifactKey, stops: Stops, *, is_quiet: bool) -> str:
    overview = Overview(runner.store)
    if is_quiet:
        return _look_on(runner, run, stops, lambda: None)
    if not sys.stdout.isatty():
        lines: Display = Lines()
        click.echo(f"run {run}")
        return _look_on(runner, run, stops, lambda: lines.show(overview.load(run)))
    tree = Tree(_console())
    with tree.live():
        return _look_on(runner, run, stops, lambda: tree.show(overview.load(run)))


def _look_on(runner: Runner, run: ArtifactKey, stops: Stops, show: Callable[[], None]) -> str:
    """Show the run whenever something was recorded, and now and then for the clock; return how it ended."""
    changed = threading.Event()
    leave = runner.store.subscribe(lambda _records: changed.set())
    quiet_s = CLOCK_S
    try:
        while True:
            stops.check()
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


def report(view: RunView, *, as_json: bool) -> None:
    """Say what can be done with a run that has been shown; with `as_json`, say everything."""
    if as_json:
        nodes = [{**asdict(node), "answers": list(node.answers)} for node in view.nodes]
        click.echo(json.dumps({**asdict(view), "nodes": nodes, "tokens": view.tokens}))
        return
    if view.status in ("interrupted", "paused"):
        click.echo(f"{view.status}; go on with: sapwood resume {view.run}")
    else:
        click.echo(f"look at it with: sapwood show {view.run}")


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


if TYPE_CHECKING:
    from rich.console import Console
