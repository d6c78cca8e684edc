"""`sapwood pause RUN`: what runs may end, nothing more is started."""

from __future__ import annotations

import json

import click

from sapwood.cli.opened import open_existing, same_place, store_options


@click.command("pause")
@click.argument("run")
@store_options
def command(run: str, store: str | None, project: str, as_json: bool) -> None:
    """Pause RUN: nodes that run may end, no other is started until `sapwood resume`."""
    from sapwood.runtime.control import Control

    with open_existing(store, project) as opened:
        was_first = Control(opened.artifacts, opened.keys).pause(run)
    if as_json:
        click.echo(json.dumps({"run": run, "status": "paused", "was_first": was_first}))
    elif was_first:
        click.echo(f"paused; when what runs has ended, go on with: sapwood resume {run}{same_place()}")
    else:
        click.echo("it was paused already")
