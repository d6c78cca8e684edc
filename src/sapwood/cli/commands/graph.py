"""`sapwood graph FILE`: the graph of a workflow, drawn for a terminal or as Mermaid text."""

from __future__ import annotations

import json

import click

from sapwood.cli.untrusted import visible
from sapwood.core.drawing import to_lanes, to_mermaid


@click.command("graph")
@click.argument("workflow")
@click.option("--mermaid", is_flag=True, help="Print a Mermaid flowchart.")
@click.option("--project", default=".", show_default=True, help="Where its templates are.")
@click.option("--json", "as_json", is_flag=True, help="Print the workflow, every default written out, as JSON.")
def command(workflow: str, mermaid: bool, project: str, as_json: bool) -> None:
    """Draw the graph of WORKFLOW, a file or the name of a built-in one."""
    from sapwood.app.checking import check_here
    from sapwood.core.workflow import workflow_to_dict

    loaded = check_here(workflow, project)
    if as_json:
        click.echo(json.dumps(workflow_to_dict(loaded), indent=2))
    else:
        click.echo(visible(to_mermaid(loaded) if mermaid else to_lanes(loaded)), nl=False)
