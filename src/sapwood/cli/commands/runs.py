"""`sapwood runs`: the runs of a store, newest first."""

from __future__ import annotations

import json

import click

from sapwood.cli.opened import open_existing, store_options
from sapwood.core.instants import instant_of_ms
from sapwood.core.keys import ArtifactKey


@click.command("runs")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@click.option("--before", metavar="KEY", help="Go on below this run.")
@click.option("--status", type=click.Choice(["running", "paused", "interrupted", "completed", "failed", "cancelled"]))
@store_options
def command(limit: int, before: str | None, status: str | None, store: str | None, project: str, as_json: bool) -> None:
    """List the runs, newest first."""
    with open_existing(store, project) as opened:
        rows = opened.runs(before=ArtifactKey(before) if before else None, limit=limit, status=status)
    for row in rows:
        started = instant_of_ms(row.started_ms)
        if as_json:
            click.echo(json.dumps({**row._asdict(), "key": row.key.text}))
        else:
            seconds = "" if row.ended_ms is None else f"{(row.ended_ms - row.started_ms) / 1000:.1f} s"
            click.echo(f"{row.key}  {row.workflow_run_id:>5}  {row.status:<11}  {started}  {seconds}".rstrip())
