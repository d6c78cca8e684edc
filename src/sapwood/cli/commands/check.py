"""`sapwood check FILE …`: every mistake with its line, its column, what is wrong and what is allowed."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Final

import click

from sapwood.cli.rows import counted
from sapwood.cli.untrusted import visible
from sapwood.core.mistakes import Mistake
from sapwood.errors import InvalidWorkflow, NotFound
from sapwood.workflows.source import MAX_FILE_BYTES

MAX_LINE_CHARS: Final = 200


@click.command("check")
@click.argument("workflows", nargs=-1, required=True, metavar="WORKFLOW...")
@click.option("--project", default=".", show_default=True, help="Where its templates are.")
@click.option("--json", "as_json", is_flag=True, help="Print the mistakes as JSON.")
def command(workflows: tuple[str, ...], project: str, as_json: bool) -> None:
    """Check workflow files, or built-in workflows by name. Nothing is run and nothing is written.

    Exit codes: 1 there is a mistake, 3 one of the files is not there (the others are checked all the same).
    """
    from sapwood.app.checking import check_here

    mistakes: list[Mistake] = []
    missing: dict[str, None] = {}  # once each: a project that is not there is missed by every workflow
    for workflow in workflows:
        try:
            loaded = check_here(workflow, project)
        except InvalidWorkflow as error:
            mistakes += [one for one in error.findings if isinstance(one, Mistake)]
        except NotFound as error:
            missing[str(error)] = None
        else:
            if not as_json:
                click.echo(
                    f"{workflow}: fine, {counted(len(loaded.nodes), 'node')}, {counted(len(loaded.edges), 'edge')}"
                )
    if as_json:
        click.echo(json.dumps({"ok": not mistakes and not missing, "mistakes": [one._asdict() for one in mistakes]}))
    else:
        for mistake in mistakes:
            show(mistake)
    for one in missing:
        click.echo(visible(f"sapwood: {one}"), err=True)
    raise SystemExit(NotFound.exit_code if missing else 1 if mistakes else 0)


def show(mistake: Mistake) -> None:
    """Print the mistake, and the line of the file with a mark below the place."""
    click.echo(visible(str(mistake)))
    lines = _lines_of(Path(mistake.file))
    if mistake.line <= len(lines):
        from rich.cells import cell_len

        number = f"{mistake.line:>5} | "
        room = shutil.get_terminal_size().columns if sys.stdout.isatty() else MAX_LINE_CHARS
        line, before = _around(lines[mistake.line - 1].replace("\t", " "), mistake.column - 1, room - len(number))
        click.echo(f"{number}{line}")
        click.echo(f"{' ' * (len(number) + cell_len(before))}^")


def _around(line: str, place: int, room: int) -> tuple[str, str]:
    """Return as much of the line around the place as there is room for, and what of that stands before the place."""
    shown, place = visible(line), len(visible(line[:place]))
    start = max(0, min(place - room // 2, len(shown) - room))
    piece = shown[start : start + room]
    piece = ("…" if start else piece[:1]) + piece[1:-1] + ("…" if start + room < len(shown) else piece[1:][-1:])
    return piece, piece[: place - start]


def _lines_of(path: Path) -> list[str]:
    """Return the lines of a file that can be read again, as far as a workflow may go; a pipe or a device cannot."""
    try:
        if not path.is_file():
            return []
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES).decode("utf-8-sig").splitlines()
    except (OSError, ValueError):
        return []
