"""`sapwood verify`: recomputes what is stored; exit code 1 when anything is wrong."""

from __future__ import annotations

import json
import sys

import click

from sapwood.cli.opened import open_existing, store_options
from sapwood.cli.untrusted import visible
from sapwood.core.keys import ArtifactKey
from sapwood.errors import InvalidInput


@click.command("verify")
@click.argument("key", required=False)
@click.option("--head", metavar="HEX", help="The run's head, as it was written down elsewhere.")
@store_options
def command(key: str | None, head: str | None, store: str | None, project: str, as_json: bool) -> None:
    """Recompute every hash, the order, the groups, the references, the prompts and the head of KEY, or of all runs."""
    if head is not None and key is None:
        raise InvalidInput("--head belongs to one run; name its key")
    is_ok = True
    with open_existing(store, project) as opened:
        for wanted in [ArtifactKey(key)] if key else [row.key for row in opened.runs()]:
            found = opened.verify(wanted, head=head)
            is_ok = is_ok and found.is_ok
            if as_json:
                findings = [{**finding._asdict(), "key": finding.key.text} for finding in found.findings]
                click.echo(
                    json.dumps(
                        {
                            "key": wanted.text,
                            "ok": found.is_ok,
                            "artifacts": found.artifacts,
                            "head": found.head,
                            "findings": findings,
                        }
                    )
                )
                continue
            click.echo(
                f"{wanted}  {'ok' if found.is_ok else 'WRONG'}  {found.artifacts} artifacts  {found.head}".rstrip()
            )
            for finding in found.findings:
                click.echo(f"  {finding.code}  {finding.key}  {visible(finding.message)}")
    sys.exit(0 if is_ok else 1)
