"""`sapwood cancel RUN`: ends a run, whoever is at it."""

from __future__ import annotations

import json
import time

import click

from sapwood.cli.opened import store_options
from sapwood.cli.running import opened_runner, settings_of
from sapwood.core.keys import ArtifactKey

WAIT_S = 10.0


@click.command("cancel")
@click.argument("run")
@store_options
def command(run: str, store: str | None, project: str, as_json: bool) -> None:
    """Cancel RUN: what runs is stopped, the record is sealed as cancelled. Nothing recorded is lost."""
    key = ArtifactKey(run)
    with opened_runner(settings_of(project=project, store=store), create=False) as runner:
        status = runner.cancel(key)
        until = time.monotonic() + WAIT_S
        while status == "running" and time.monotonic() < until:  # the process that is at it has been told
            time.sleep(0.1)
            status = runner.status(key)
    if as_json:
        click.echo(json.dumps({"run": run, "status": status}))
    else:
        click.echo(status if status != "running" else "asked; the process at the run has not stopped yet")
    raise SystemExit(0 if status == "cancelled" else 4)
