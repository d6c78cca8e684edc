"""`sapwood runs`: the runs of a store, newest first."""

from __future__ import annotations

import json
import shutil

import click

from sapwood.cli.artifact_lines import human_duration
from sapwood.cli.opened import open_existing, same_place, store_options
from sapwood.core.instants import instant_of_ms
from sapwood.core.keys import ArtifactKey
from sapwood.ports import RunRow

NARROW = 80


@click.command("runs")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@click.option("--before", metavar="KEY", help="Go on below this run.")
@click.option("--status", type=click.Choice(["running", "paused", "interrupted", "completed", "failed", "cancelled"]))
@store_options
def command(limit: int, before: str | None, status: str | None, store: str | None, project: str, as_json: bool) -> None:
    """List the runs, newest first: key, number, status, start, duration. With --json, one object a line."""
    with open_existing(store, project) as opened:
        rows = opened.runs(before=ArtifactKey(before) if before else None, limit=limit + 1, status=status)
    shown, more = rows[:limit], rows[limit:]
    for row in shown:
        if as_json:
            click.echo(json.dumps({**row._asdict(), "key": row.key.text}))
        else:
            click.echo(_line(row))
    if more:
        same = (f" --status {status}" if status else "") + (" --json" if as_json else "")
        click.echo(f"… sapwood runs{same} --before {shown[-1].key}{same_place()}", err=as_json)


def _line(row: RunRow) -> str:
    started = instant_of_ms(row.started_ms).partition(".")[0].replace("T", " ")
    took = "" if row.ended_ms is None else human_duration(row.ended_ms - row.started_ms)
    if shutil.get_terminal_size((NARROW, 24)).columns < NARROW:
        return f"{row.key}  {row.status}\n  {row.workflow_run_id}  {started}  {took}".rstrip()
    return f"{row.key}  {row.workflow_run_id:>5}  {row.status:<11}  {started}  {took}".rstrip()
