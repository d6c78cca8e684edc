"""`sapwood run WORKFLOW`: a workflow file, or a built-in workflow by its name, to its end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli.running import opened_runner, read_inputs, read_options, settings_of
from sapwood.cli.stops import Stops
from sapwood.core.inputs import resolve_inputs
from sapwood.core.workflow import Workflow
from sapwood.settings import Settings

if TYPE_CHECKING:
    from sapwood.app.runner import Runner


@click.command("run")
@click.argument("workflow")
@click.option("-i", "--input", "pairs", multiple=True, metavar="NAME=VALUE", help="An input; @FILE is a file's text.")
@click.option("--inputs", "inputs_file", type=click.Path(dir_okay=False), help="A JSON or YAML file of inputs.")
@click.option("--provider", help="Who answers for the nodes that name nobody.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="What that provider is told.")
@click.option("--detach", is_flag=True, help="Print the run's key and let it run in the background.")
@click.option("--project", default=".", show_default=True, help="Where templates, documents and the store are.")
@click.option("--store", help="The store; the project's own if not given.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    workflow: str,
    pairs: tuple[str, ...],
    inputs_file: str | None,
    provider: str | None,
    options: tuple[str, ...],
    detach: bool,
    project: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Run WORKFLOW: a file, or one of single, self_critique, team, phased.

    Ctrl-C leaves the run as it is; `sapwood resume` goes on with it. Exit codes: 0 completed, 1 failed or cancelled,
    2 a mistake in the file or the inputs, 3 not found, 4 paused or could not do it, 130 Ctrl-C, 129 and 143 other
    signals.
    """
    settings = settings_of(project=project, store=store, provider=provider, provider_options=read_options(options))

    def prepare(runner: Runner) -> tuple[Workflow, dict[str, Any]]:
        loaded = runner.load(workflow)
        return loaded, resolve_inputs(loaded, read_inputs(loaded, pairs, inputs_file))

    with Stops() as stops:
        from sapwood.app.runner import before_a_store

        early = before_a_store(settings.store_path, settings, prepare)
        with opened_runner(settings, create=True) as runner:
            loaded, inputs = early or prepare(runner)
            if not detach:
                from sapwood.cli.following import follow

                raise SystemExit(follow(runner, lambda: runner.start(loaded, inputs), stops, as_json=as_json))
            stops.check()
            run = runner.open(loaded, inputs)
    log = run_in_background(run.text, settings)
    click.echo(json.dumps({"run": run.text, "log": str(log)}) if as_json else run.text)


def run_in_background(run: str, settings: Settings) -> Path:
    """Start a process of its own that continues the run; return where it says what it does."""
    folder = Path(settings.store_path).resolve().parent / "logs"
    folder.mkdir(mode=0o700, exist_ok=True)
    log = folder / f"{run.removeprefix('ak:')}.log"
    words = ["-m", "sapwood", "resume", run, "--project", str(settings.project), "--store", settings.store_path]
    log.touch(mode=0o600)
    with log.open("ab") as file:
        subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    return log
