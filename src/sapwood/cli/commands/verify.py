"""`sapwood verify`: recomputes what is stored; exit code 1 when anything is wrong."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Final

import click

from sapwood.cli.counting import counting
from sapwood.cli.opened import open_existing, store_options
from sapwood.cli.rows import counted
from sapwood.cli.untrusted import one_line
from sapwood.core.keys import ArtifactKey
from sapwood.errors import InvalidInput, StoreDamaged

if TYPE_CHECKING:
    from sapwood.runtime.session import Store

HEAD: Final = re.compile("[0-9a-fA-F]{64}")


@click.command("verify")
@click.argument("key", required=False)
@click.option("--head", metavar="HEX", help="The run's head, as it was written down elsewhere.")
@store_options
def command(key: str | None, head: str | None, store: str | None, project: str, as_json: bool) -> None:
    """Recompute every hash, the order, the groups, the references, the prompts and the head of KEY, or of the store."""
    wanted = ArtifactKey(key) if key else None
    if head is not None and (wanted is None or wanted.depth > 1):
        raise InvalidInput("--head belongs to a whole run; name its key")
    if head is not None and not HEAD.fullmatch(head):
        raise InvalidInput(f"--head is 64 hexadecimal digits; {head[:80]!r} is {len(head)} characters")
    with open_existing(store, project) as opened:
        with counting(_count(opened, wanted), "verifying") as progress:
            found = opened.verify(wanted, head=head, progress=progress)
        rows = [] if key or not found.artifacts else opened.runs()
    if as_json:
        answer = {
            "key": key,
            "ok": found.is_ok,
            "artifacts": found.artifacts,
            "head": found.head,
            "findings": [finding.to_dict() for finding in found.findings],
        }
        click.echo(json.dumps(answer))
        sys.exit(0 if found.is_ok else 1)
    for row in rows:
        click.echo(f"{row.key}  {row.status}  {row.head or ''}".rstrip())
    for finding in found.findings:
        click.echo(f"  {finding.code}  {finding.key or 'the store'}  {one_line(finding.message)}")
    verdict = "ok" if found.is_ok else "WRONG"
    click.echo(f"{key or 'the store'}  {verdict}  {counted(found.artifacts, 'artifact')}  {found.head}".rstrip())
    sys.exit(0 if found.is_ok else 1)


def _count(opened: Store, key: ArtifactKey | None) -> int:
    """Return how many artifacts there are to look at; 0 where a damaged file does not say."""
    try:
        with opened.artifacts.read() as reader:
            return reader.count(key)
    except StoreDamaged:
        return 0
