"""`sapwood reconstruct RUN`: what happened, from the tree alone; exit code 1 when something cannot be rebuilt."""

from __future__ import annotations

import sys

import click

from sapwood.cli.opened import open_existing, store_options
from sapwood.cli.untrusted import json_line, one_line


@click.command("reconstruct")
@click.argument("key")
@store_options
def command(key: str, store: str | None, project: str, as_json: bool) -> None:
    """Rebuild the prompts, the tool use and the outcomes of a run from its tree alone."""
    with open_existing(store, project) as opened:
        told = opened.reconstruct(key)
    is_ok = not any(finding.is_failure for finding in told.findings)
    if as_json:
        answer = {
            "ok": is_ok,
            "agents": [{"key": one.key.text, "node": one.node, "attempt": one.attempt} for one in told.agents],
            "prompts": [
                {"key": one.key.text, "text": one.text, "is_rebuilt": one.is_rebuilt, "template": one.template_id}
                for one in told.prompts
            ],
            "tools": [
                {"key": one.key.text, "tool": one.tool, "inputs": one.inputs, "outputs": one.outputs}
                for one in told.tool_uses
            ],
            "outcomes": [{"name": one.name, "passed": one.passed} for one in told.outcomes],
            "findings": [finding.to_dict() for finding in told.findings],
        }
        click.echo(json_line(answer))
    else:
        for agent in told.agents:
            click.echo(
                f"agent   {agent.key}  {one_line(agent.node)}  attempt {agent.attempt}  {agent.status or 'open'}"
            )
        for prompt in told.prompts:
            how = "rebuilt" if prompt.is_rebuilt else "NOT REBUILT"
            click.echo(f"prompt  {prompt.key}  {how}  {one_line(prompt.template_id or '')}".rstrip())
        for use in told.tool_uses:
            click.echo(f"tool    {use.key}  {one_line(use.tool)}")
        for outcome in told.outcomes:
            click.echo(f"outcome {outcome.key}  {one_line(outcome.name)}  passed: {outcome.passed}")
        for finding in told.findings:
            click.echo(f"{finding.code}  {finding.key}  {one_line(finding.message)}")
    sys.exit(0 if is_ok else 1)
