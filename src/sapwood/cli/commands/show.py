"""`sapwood show KEY`: the tree at and below any key, page by page, or the exact bytes of one artifact."""

from __future__ import annotations

import shutil
from itertools import islice

import click

from sapwood.cli.artifact_lines import ArtifactLines
from sapwood.cli.opened import open_existing, same_place, store_options
from sapwood.cli.untrusted import json_line, print_exactly
from sapwood.core.codec import to_dict
from sapwood.core.keys import ArtifactKey
from sapwood.errors import InvalidInput, NotFound
from sapwood.ports import Glance, Reader

HINT = "`sapwood runs` lists the runs, `sapwood show RUN --keys` what is in one"
WIDE = 160  # where the width is not known, because nobody looks


@click.command("show")
@click.argument("key")
@click.option("--depth", type=click.IntRange(0), help="How many levels below KEY.")
@click.option("--limit", type=click.IntRange(1), default=200, show_default=True, help="How many artifacts a page has.")
@click.option("--after", metavar="KEY", help="Go on after this artifact.")
@click.option("--timeline", is_flag=True, help="In the order of making, not as a tree.")
@click.option("--keys", is_flag=True, help="Print the whole key of each artifact, below it.")
@click.option("--raw", is_flag=True, help="Print the exact bytes of KEY.")
@store_options
def command(
    key: str,
    depth: int | None,
    limit: int,
    after: str | None,
    timeline: bool,
    keys: bool,
    raw: bool,
    store: str | None,
    project: str,
    as_json: bool,
) -> None:
    """Show the artifact KEY and what stands below it.

    KEY is a run, or any artifact of one. Each line has the kind, the size, for agents and runs the duration, what is
    odd in brackets, in a wide terminal the last segment of the key, and how the content begins. With --json
    each line is one artifact, as an object.
    """
    if raw and as_json:
        raise click.UsageError("--raw prints exact bytes, which are no JSON: leave --json out")
    if timeline and depth is not None:
        raise InvalidInput("--timeline has no levels; leave --depth out")
    top = ArtifactKey(key)
    start = ArtifactKey(after) if after else None
    with open_existing(store, project) as opened, opened.artifacts.read() as reader:
        if raw:
            _print_bytes(reader, top)
            return
        page = _page(reader, top, start, limit + 1, depth, is_timeline=timeline)
        if not page:
            raise NotFound(f"artifact {top}", HINT) if after is None else NotFound(f"anything after {after}")
        lines = ArtifactLines(reader, top, _width(), is_tree=not timeline, with_keys=keys)
        for seen in page[:limit]:
            if as_json:
                record = reader.find(seen.key)
                assert record is not None  # one snapshot
                click.echo(json_line(to_dict(record)))
            else:
                click.echo(lines.line(seen))
    if len(page) > limit:
        same = "".join(
            [
                f" --depth {depth}" if depth is not None else "",
                " --timeline" if timeline else "",
                " --keys" if keys else "",
                " --json" if as_json else "",
            ]
        )
        click.echo(f"… sapwood show {top}{same} --after {page[limit - 1].key}{same_place()}", err=as_json)


def _page(
    reader: Reader, top: ArtifactKey, after: ArtifactKey | None, limit: int, depth: int | None, *, is_timeline: bool
) -> list[Glance]:
    if not is_timeline:
        return list(reader.glance(top, after=after, limit=limit, depth=depth))
    keys = reader.timeline_keys(top, after=after, limit=limit)
    return [seen for found in keys for seen in islice(reader.glance(found, limit=1), 1)]


def _print_bytes(reader: Reader, key: ArtifactKey) -> None:
    found = reader.find(key)
    if found is None:
        raise NotFound(f"artifact {key}", HINT)
    print_exactly(found.content)


def _width() -> int:
    return shutil.get_terminal_size((WIDE, 24)).columns
