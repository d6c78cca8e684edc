"""`sapwood show KEY`: the tree at and below any key, page by page, or the exact bytes of one artifact."""

from __future__ import annotations

import json
import sys

import click

from sapwood.cli.opened import open_existing, store_options
from sapwood.cli.untrusted import visible
from sapwood.core.codec import to_dict
from sapwood.core.instants import instant_of_ms
from sapwood.core.keys import ArtifactKey
from sapwood.core.record import Record
from sapwood.errors import NotFound

PREVIEW_CHARS = 60


@click.command("show")
@click.argument("key")
@click.option("--depth", type=click.IntRange(0), help="How many levels below KEY.")
@click.option("--limit", type=click.IntRange(1), default=200, show_default=True, help="How many artifacts a page has.")
@click.option("--after", metavar="KEY", help="Go on after this artifact.")
@click.option("--timeline", is_flag=True, help="In the order of making, not as a tree.")
@click.option("--raw", is_flag=True, help="Print the exact bytes of KEY.")
@store_options
def command(
    key: str,
    depth: int | None,
    limit: int,
    after: str | None,
    timeline: bool,
    raw: bool,
    store: str | None,
    project: str,
    as_json: bool,
) -> None:
    """Show the artifact KEY and what stands below it."""
    top = ArtifactKey(key)
    with open_existing(store, project) as opened, opened.artifacts.read() as reader:
        if raw:
            found = reader.find(top)
            if found is None:
                raise NotFound(f"artifact {top}")
            sys.stdout.buffer.write(found.content)
            return
        page = list(reader.load(top, after=ArtifactKey(after) if after else None, limit=limit))
    if not page:
        raise NotFound(f"artifact {top}" if after is None else f"anything after {after}")
    if timeline:
        page.sort(key=lambda record: (record.key.last_segment, record.key))
    for record in page:
        level = record.key.depth - top.depth
        if depth is None or level <= depth:
            click.echo(json.dumps(to_dict(record)) if as_json else _line(record, 0 if timeline else level))
    if len(page) == limit and not as_json:
        click.echo(f"… sapwood show {top} --after {page[-1].key}")


def _line(record: Record, level: int) -> str:
    preview = visible(record.content[: 4 * PREVIEW_CHARS].decode(errors="replace"))[:PREVIEW_CHARS]
    made = instant_of_ms(record.key.time_ms)[11:]
    return f"{'  ' * level}{record.kind}  {len(record.content)} B  {made}  {record.key.last_segment}  {preview}"
