"""`sapwood doctor`: what is wrong around a store; exit code 1 when anything is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from sapwood.cli.opened import open_existing, same_place, store_options
from sapwood.cli.untrusted import visible
from sapwood.core.keys import ArtifactKey
from sapwood.settings import Settings


@click.command("doctor")
@click.option("--seal", metavar="RUN", help="Seal this interrupted run as failed; its process must be gone.")
@store_options
def command(seal: str | None, store: str | None, project: str, as_json: bool) -> None:
    """Look for interrupted runs, leftover spools, a bad SQLite, network file systems and wrong permissions.

    Looking changes nothing. With --seal one interrupted run is ended.
    """
    from sapwood.app.doctor import examine, seal_interrupted

    if seal is not None:
        with open_existing(store, project) as opened:
            status = seal_interrupted(opened, ArtifactKey(seal))
        click.echo(json.dumps({"run": seal, "status": status}) if as_json else f"{seal} is sealed as {status}")
        return
    settings = Settings.read({"project": project, "store": store}, os.environ)
    checks = examine(Path(settings.store_path), place=same_place())
    is_ok = all(check.is_ok for check in checks)
    if as_json:
        click.echo(json.dumps({"ok": is_ok, "checks": [check._asdict() for check in checks]}))
    else:
        for check in checks:
            mark = click.style("ok   ", fg="green") if check.is_ok else click.style("WRONG", fg="red", bold=True)
            click.echo(f"{mark}  {check.name:<11}  {visible(check.message)}")
    raise SystemExit(0 if is_ok else 1)
