"""`sapwood resume RUN`: goes on with a run that was interrupted or paused."""

from __future__ import annotations

import click

from sapwood.cli.opened import store_options
from sapwood.cli.running import opened_runner, settings_of
from sapwood.core.keys import ArtifactKey


@click.command("resume")
@click.argument("run")
@store_options
def command(run: str, store: str | None, project: str, as_json: bool) -> None:
    """Go on with RUN. What has been recorded is not done again; a call that was in flight is made again.

    Exit codes are those of `sapwood run`.
    """
    from sapwood.cli.following import follow

    key = ArtifactKey(run)
    with opened_runner(settings_of(project=project, store=store), create=False) as runner:

        def submit() -> ArtifactKey:
            runner.resume(key)
            return key

        raise SystemExit(follow(runner, submit, as_json=as_json))
