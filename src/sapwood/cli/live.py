"""A run while it runs: a live tree in a terminal, one line for each change everywhere else."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from sapwood.cli.untrusted import visible
from sapwood.runtime.overview import NodeView, RunView

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

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
QUIET = ("pending", "completed", "skipped")
WIDE, MEDIUM = 90, 56


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
    said = f": {one_line(node.error)}" if node.error else ""
    return ", ".join(parts) + said


class Tree:
    """A table that is drawn again and again in its place; when it does not fit, what is quiet is only counted."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def show(self, view: RunView) -> None:
        rows = max(3, self._console.size.height - 5)
        self._live.update(table_of(view, self._console, rows), refresh=True)

    @contextmanager
    def live(self) -> Iterator[Tree]:
        with self._live:
            yield self


def table_of(view: RunView, console: Console, rows: int | None = None) -> Table:
    """Return the run as a table that fits the console; narrower ones have fewer columns."""
    from rich.table import Table
    from rich.text import Text

    width = console.size.width
    table = Table(box=None, pad_edge=False, show_header=False, expand=False)
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    if width >= MEDIUM:
        table.add_column(justify="right", no_wrap=True)
    if width >= WIDE:
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis")
    shown, left_out = fitting(view.nodes, rows)
    is_utf8 = "utf" in console.encoding.lower()
    for node in shown:
        sign, plain, style = SIGNS[node.status]
        name = Text(f"{'  ' * node.depth}{sign if is_utf8 else plain} {node.key}", style=style)
        if node.attempts > 1:
            name.append(f"  attempt {node.attempts}", style="dim")
        cells = [name, Text(seconds_of(node))]
        if width >= MEDIUM:
            cells.append(Text(f"{node.tokens:,} tokens" if node.tokens else "", style="dim"))
        if width >= WIDE:
            cells += [Text(context_of(node, is_utf8), style="dim"), Text(note_of(node), style=style)]
        table.add_row(*cells)
        if width < WIDE and note_of(node):
            table.add_row(Text(f"{'  ' * node.depth}  {note_of(node)}", style=style), Text(""))
    if left_out:
        counts = Counter(node.status for node in left_out)
        table.add_row(Text(f"  and {', '.join(f'{count} {status}' for status, count in counts.items())}", style="dim"))
    table.caption = Text(summary_of(view), style="bold")
    table.caption_justify = "left"
    return table


def fitting(nodes: Sequence[NodeView], rows: int | None) -> tuple[list[NodeView], list[NodeView]]:
    """Return the nodes to show in so many rows, in their order, and the others; what moves comes before the quiet."""
    if rows is None or len(nodes) <= rows:
        return list(nodes), []
    by_need = sorted(range(len(nodes)), key=lambda place: (nodes[place].status in QUIET, nodes[place].depth > 0, place))
    kept = set(by_need[: rows - 1])
    return (
        [node for place, node in enumerate(nodes) if place in kept],
        [node for place, node in enumerate(nodes) if place not in kept],
    )


def summary_of(view: RunView) -> str:
    """Return the run in one line."""
    ended_ms = view.ended_ms if view.ended_ms is not None else int(time.time() * 1000)
    parts = [f"{view.workflow} {view.status}", f"{max(0, ended_ms - view.started_ms) / 1000:.1f} s"]
    if view.tokens:
        parts.append(f"{view.tokens:,} tokens")
    return ", ".join(parts)


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
        return f"asks: {one_line(node.question)} ({' | '.join(node.answers)})"
    return one_line(node.error) if node.error else ""


def one_line(text: str) -> str:
    return visible(" ".join(text.split()))


def clock() -> str:
    return time.strftime("%H:%M:%S")
