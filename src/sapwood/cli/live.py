"""A run while it runs: a live tree in a terminal, one line for each change everywhere else."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from sapwood.cli.opened import same_place
from sapwood.cli.untrusted import one_line
from sapwood.runtime.overview import NodeView, RunView

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

SIGNS = {
    "pending": ("○", ".", "dim"),
    "running": ("●", "*", "cyan"),
    "waiting": ("?", "?", "yellow"),
    "completed": ("✓", "+", "green"),
    "failed": ("✗", "x", "red"),
    "cancelled": ("■", "#", "magenta"),
    "interrupted": ("‖", "|", "magenta"),
    "paused": ("‖", "|", "magenta"),
    "skipped": ("–", "-", "dim"),
}
ENDED = ("completed", "failed", "cancelled")
QUIET = ("pending", "completed", "skipped")
TIME_CELLS, TOKEN_CELLS = 10, 16
QUESTION_ROWS = 6
ECHO_CELLS = 3  # the terminal's echo of Ctrl-C stands behind the last line; there it must not begin a new one


class Display(Protocol):
    """Shows a run as it changes."""

    def show(self, view: RunView) -> None:
        """Show the run as it stands now."""


class Lines:
    """One line for each change of a node, with nothing that only a terminal understands."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, int]] = {}

    def show(self, view: RunView) -> None:
        for node in view.nodes:
            now = (node.status, node.attempts)
            if node.status == "pending" or self._seen.get(node.key) == now:
                continue
            self._seen[node.key] = now
            click.echo(f"{clock()}  {node.key}  {line_of(node)}")
            for line in how_to_answer(view, [node]):
                click.echo(line)


def line_of(node: NodeView) -> str:
    """Return what there is to say about a node, in words."""
    parts = [node.status]
    if node.attempts > 1:
        parts.append(f"attempt {node.attempts}")
    if node.ended_ms is not None:
        parts.append(seconds_of(node))
    if node.tokens:
        parts.append(f"{node.tokens:,} tokens")
    if node.context_chars:
        parts.append(f"context {node.context_chars:,} of {node.context_limit_chars:,} chars")
    if node.context_is_cut:
        parts.append("context cut")
    said = note_of(node)
    return ", ".join(parts) + (f": {said}" if said else "")


class Tree:
    """Lines that are drawn again and again in their place; when they do not fit, what is quiet is only counted."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def show(self, view: RunView) -> None:
        from rich.console import Group

        rows = max(3, self._console.size.height - 3 - 2 * max(1, len(how_to_answer(view, view.nodes))))
        self._live.update(Group(*lines_of(view, self._console, rows)), refresh=True)

    @contextmanager
    def live(self) -> Iterator[Tree]:
        with self._live:
            yield self


def lines_of(view: RunView, console: Console, rows: int | None = None) -> list[Text]:
    """Return the run as lines that fit the console; narrower ones say less about each node.

    Without `rows` it is drawn for the last time: then what nodes say is whole, however many lines it takes.
    """
    from rich.text import Text

    width = console.size.width - ECHO_CELLS
    is_utf8 = "utf" in console.encoding.lower()
    notes = {node.key: _notes(node, console, width, is_utf8, is_whole=rows is None) for node in view.nodes}
    shown, left_out = fitting(view.nodes, rows, [1 + len(notes[node.key]) for node in view.nodes])
    names = [_name(node, is_utf8) for node in shown]
    name_cells = min(max(map(len, names), default=0), max(8, width - TIME_CELLS))
    lines = []
    for node, name in zip(shown, names, strict=True):
        style = SIGNS[node.status][2]
        line = Text(_cut(name, name_cells, is_utf8).ljust(name_cells), style=style)
        line.append(seconds_of(node).rjust(TIME_CELLS), style="default")
        tokens = f"{node.tokens:,} tokens" if node.tokens else ""
        for cell in (tokens.rjust(TOKEN_CELLS), f"  {context_of(node, is_utf8)}"):
            if len(line) + len(cell) <= width:
                line.append(cell, style="dim")
        line.rstrip()
        lines.append(line)
        lines.extend(Text(note, style=style) for note in notes[node.key])
    if left_out:
        counts = Counter(node.status for node in left_out)
        lines.append(Text(f"  and {', '.join(f'{count} {status}' for status, count in counts.items())}", style="dim"))
    lines.append(Text(summary_of(view), style="bold"))
    return [*lines, *map(Text, how_to_answer(view, view.nodes))]


def _name(node: NodeView, is_utf8: bool) -> str:
    sign = SIGNS[node.status][0 if is_utf8 else 1]
    return f"{'  ' * node.depth}{sign} {node.key}" + (f"  attempt {node.attempts}" if node.attempts > 1 else "")


def _cut(text: str, cells: int, is_utf8: bool) -> str:
    from rich.cells import cell_len, set_cell_size

    mark = "…" if is_utf8 else "~"
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + mark


def _notes(node: NodeView, console: Console, cells: int, is_utf8: bool, *, is_whole: bool) -> list[str]:
    """Return what a node says in lines that fit: an error is cut, a question goes on, for a person has to answer it."""
    from rich.cells import cell_len, set_cell_size

    indent = "  " * node.depth + "  "
    note = f"{indent}{note_of(node)}"
    if not note.strip() or is_whole or cell_len(note) <= cells:
        return [note] if note.strip() else []
    if node.question is None:
        return [_cut(note, cells, is_utf8)]
    width = max(20, cells - len(indent))
    lines = _wrapped(f"asks {one_line(node.question)}", console, width)
    if len(lines) > QUESTION_ROWS:
        last = lines[QUESTION_ROWS - 1]
        shown = set_cell_size(last, min(cell_len(last), width - 2)).rstrip()
        lines[QUESTION_ROWS - 1 :] = [shown + (" …" if is_utf8 else " ~")]
    lines += _wrapped(f"({' | '.join(node.answers)})", console, width)
    return [f"{indent}{line}" for line in lines]


def _wrapped(text: str, console: Console, cells: int) -> list[str]:
    """Return the text in lines of so many cells; many characters take two of them."""
    from rich.text import Text

    return [line.plain.rstrip() for line in Text(text).wrap(console, cells, overflow="fold")]


def fitting(
    nodes: Sequence[NodeView], rows: int | None, heights: Sequence[int]
) -> tuple[list[NodeView], list[NodeView]]:
    """Return the nodes to show in so many rows, in their order, and the others.

    What waits for a person comes first, then what moves, then what went wrong, then the quiet.
    """
    if rows is None or sum(heights) <= rows:
        return list(nodes), []
    by_need = sorted(range(len(nodes)), key=lambda place: (_need(nodes[place]), nodes[place].depth > 0, place))
    kept, room = set[int](), rows - 1  # one for the count of the others
    for place in by_need:
        if heights[place] <= room:
            kept.add(place)
            room -= heights[place]
    return (
        [node for place, node in enumerate(nodes) if place in kept],
        [node for place, node in enumerate(nodes) if place not in kept],
    )


def _need(node: NodeView) -> int:
    if node.question is not None:
        return 0
    return 3 if node.status in QUIET else 2 if node.status in ENDED else 1


def summary_of(view: RunView) -> str:
    """Return the run in one line."""
    ended_ms = view.ended_ms if view.ended_ms is not None else int(time.time() * 1000)
    parts = [f"{one_line(view.workflow)} {view.status}", f"{max(0, ended_ms - view.started_ms) / 1000:.1f} s"]
    if view.tokens:
        parts.append(f"{view.tokens:,} tokens")
    return ", ".join(parts)


def how_to_answer(view: RunView, nodes: Iterable[NodeView]) -> list[str]:
    """Return a command line for each question that waits for an answer."""
    return [
        f"  sapwood answer {view.run} {node.key} {node.answers[0]}{same_place()}"
        for node in nodes
        if node.question is not None and view.status not in ENDED
    ]


def seconds_of(node: NodeView) -> str:
    if node.started_ms is None:
        return ""
    ended_ms = node.ended_ms if node.ended_ms is not None else int(time.time() * 1000)
    return f"{max(0, ended_ms - node.started_ms) / 1000:.1f} s"


def context_of(node: NodeView, is_utf8: bool) -> str:
    """Return how much of its context a node used, as a bar and a share."""
    if not node.context_chars or not node.context_limit_chars:
        return ""
    share = node.context_chars / node.context_limit_chars
    cells = min(8, max(1, round(share * 8)))
    full, empty = ("▪", "·") if is_utf8 else ("#", ".")
    return f"context {full * cells}{empty * (8 - cells)} {share:4.0%}{', cut' if node.context_is_cut else ''}"


def note_of(node: NodeView) -> str:
    if node.question is not None:
        return f"asks {one_line(node.question)} ({' | '.join(node.answers)})"
    if node.error_before and not node.error:
        return f"the try before failed: {one_line(node.error_before)}"
    return one_line(node.error) if node.error else ""


def clock() -> str:
    return time.strftime("%H:%M:%S")
