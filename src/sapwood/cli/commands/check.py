"""`sapwood check FILE …`: every mistake with its line, its column, what is wrong and what is allowed."""

from __future__ import annotations

import json
from pathlib import Path

import click

from sapwood.cli.untrusted import visible
from sapwood.core.mistakes import Mistake
from sapwood.errors import InvalidWorkflow, NotFound
from sapwood.workflows.source import MAX_FILE_BYTES


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
                click.echo(f"{workflow}: fine, {len(loaded.nodes)} nodes, {len(loaded.edges)} edges")
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
        line = lines[mistake.line - 1]
        number = f"{mistake.line:>5} | "
        before = visible(line[: mistake.column - 1].replace("\t", " "))
        click.echo(f"{number}{visible(line.replace(chr(9), ' '))[:200]}")
        click.echo(f"{' ' * (len(number) + len(before))}^" if len(before) < 200 else "")


def _lines_of(path: Path) -> list[str]:
    """Return the lines of a file that can be read again, as far as a workflow may go; a pipe or a device cannot."""
    try:
        if not path.is_file():
            return []
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES).decode("utf-8-sig").splitlines()
    except (OSError, ValueError):
        return []
