"""`sapwood resume RUN`: goes on with a run that was interrupted or paused."""

from __future__ import annotations

import click

from sapwood.cli.opened import store_options
from sapwood.cli.running import opened_runner, settings_of
from sapwood.cli.stops import Stops
from sapwood.core.keys import ArtifactKey
from sapwood.errors import RunSealed


@click.command("resume")
@click.argument("run")
@store_options
def command(run: str, store: str | None, project: str, as_json: bool) -> None:
    """Go on with RUN. What has been recorded is not done again; a call that was in flight is made again.

    Exit codes are those of `sapwood run`, also for a run that has ended already: it is shown as it is.
    """
    key = ArtifactKey(run)
    with Stops() as stops, opened_runner(settings_of(project=project, store=store), create=False) as runner:
        from sapwood.cli.following import EXIT_CODES, follow, report, show_last
        from sapwood.runtime.overview import Overview

        def submit() -> ArtifactKey:
            runner.resume(key)
            return key

        try:
            raise SystemExit(follow(runner, submit, stops, as_json=as_json))
        except RunSealed as sealed:
            view = Overview(runner.store).load(key)
            if not as_json:
                show_last(view)
            report(view, as_json=as_json)
            raise SystemExit(EXIT_CODES[sealed.status]) from None
