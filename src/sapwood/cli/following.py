"""Waits for a run of this process, shows it meanwhile, and leaves it whole when a person or the system says stop."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, NamedTuple

import click

from sapwood.cli.console import plain_console
from sapwood.cli.live import Display, Lines, Tree, lines_of, summary_of
from sapwood.cli.opened import same_place
from sapwood.cli.stops import Stop, Stops
from sapwood.core.keys import ArtifactKey
from sapwood.runtime.overview import Overview, RunView

if TYPE_CHECKING:
    from sapwood.app.runner import Runner

EXIT_CODES = {"completed": 0, "failed": 1, "cancelled": 1, "paused": 4}
LOOK_S = 0.1
CLOCK_S = 0.5


class Seen(NamedTuple):
    """A run as this process leaves it, and the exit code that says so."""

    run_key: ArtifactKey
    view: RunView
    exit_code: int


def follow(runner: Runner, submit: Callable[[], ArtifactKey], stops: Stops, *, as_json: bool) -> int:
    """Submit a run, show it until it ends, say how it ended; return the exit code."""
    seen = watch(runner, submit, stops, is_quiet=as_json)
    report(seen.view, as_json=as_json)
    return seen.exit_code


def watch(runner: Runner, submit: Callable[[], ArtifactKey], stops: Stops, *, is_quiet: bool) -> Seen:
    """Submit a run and show it until it ends, or until this process is told to stop; the runner is closed then."""
    run: ArtifactKey | None = None
    try:
        try:
            stops.check()
            run = submit()
            status = _wait(runner, run, stops, is_quiet=is_quiet)
        finally:
            runner.close()
            stops.end()
    except Stop as stop:
        if run is None:
            raise
        seen = Seen(run, as_left(Overview(runner.store).load(run)), stop.exit_code)
    else:
        seen = Seen(run, Overview(runner.store).load(run), EXIT_CODES[status])
    if not is_quiet:
        show_last(seen.view)
    return seen


def show_last(view: RunView) -> None:
    """Print the run as it stays on the screen."""
    if is_drawing():
        console = plain_console()
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
    if not is_drawing():
        lines: Display = Lines()
        click.echo(f"run {run}")
        return _look_on(runner, run, stops, lambda: lines.show(overview.load(run)))
    tree = Tree(plain_console())
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
        click.echo(f"{view.status}; go on with: sapwood resume {view.run}{same_place()}")
    else:
        click.echo(f"look at it with: sapwood show {view.run}{same_place()}")


def is_drawing() -> bool:
    """Tell whether the output is a terminal that can draw a line anew; others get one line for each change."""
    return sys.stdout.isatty() and not plain_console().is_dumb_terminal
