"""`sapwood answer RUN NODE ANSWER`: a person's answer to a gate."""

from __future__ import annotations

import getpass
import json
import os

import click

from sapwood.cli.opened import open_existing, store_options


@click.command("answer")
@click.argument("run")
@click.argument("node")
@click.argument("answer")
@click.option("--who", help="Who answers; your user name if not given.")
@click.option("-m", "--message", default="", help="What you say besides; it is handed on with the answer.")
@store_options
def command(
    run: str,
    node: str,
    answer: str,
    who: str | None,
    message: str,
    store: str | None,
    project: str,
    as_json: bool,
) -> None:
    """Answer the question that NODE of RUN asks. The first answer stands; a later one changes nothing (exit code 1)."""
    from sapwood.runtime.control import Control

    with open_existing(store, project) as opened:
        was_first = Control(opened.artifacts, opened.keys).answer(run, node, answer, who or _user(), message)
    if as_json:
        click.echo(json.dumps({"run": run, "node": node, "answer": answer, "was_first": was_first}))
    else:
        click.echo("answered" if was_first else "it was answered before; the first answer stands", err=not was_first)
    raise SystemExit(0 if was_first else 1)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in many containers
        return f"uid {os.getuid()}"
