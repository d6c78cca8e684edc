"""`sapwood templates`: the families, their versions, how they differ, and which executions used them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from sapwood.cli.console import plain_console
from sapwood.cli.opened import store_options
from sapwood.cli.untrusted import one_line, print_diff, visible
from sapwood.core.hashing import utf8
from sapwood.core.instants import instant_of_ms
from sapwood.core.template import TemplateId, TemplateVersion
from sapwood.settings import Settings

if TYPE_CHECKING:
    from rich.tree import Tree

    from sapwood.ports import ArtifactStore
    from sapwood.templates.files import Loaded, RefusedFile
    from sapwood.templates.registry import TemplateRegistry
    from sapwood.templates.usage import Use


MAX_LINE_CHARS = 1000


@click.group()
def command() -> None:
    """List template families, compare their versions, and see which executions used them."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The store after its start, with what the start found in the template files."""

    store: ArtifactStore
    registry: TemplateRegistry
    loaded: Loaded
    project: Path


@contextmanager
def _opened(project: str, store: str | None) -> Iterator[Opened]:
    from sapwood.app import MEMORY, load_templates
    from sapwood.app.project import existing_project, open_project_store

    settings = Settings.read({"project": project, "store": store}, os.environ)
    folder = existing_project(settings)
    own = store or settings.template_roots or (folder / "templates").exists() or os.path.lexists(settings.store_path)
    with open_project_store(settings.store_path if own else MEMORY) as opened:  # looking makes no project of a folder
        loaded = load_templates(opened, folder, settings.template_roots)
        yield Opened(opened.artifacts, cast("TemplateRegistry", opened.templates), loaded, folder)


@command.command("list")
@click.argument("prefix", default="tpl")
@click.option("--errors", is_flag=True, help="Show the files that are refused, now or earlier, instead.")
@store_options
def list_templates(prefix: str, errors: bool, project: str, store: str | None, as_json: bool) -> None:
    """Show the families below PREFIX as a tree, with their versions and their first and last use."""
    from sapwood.templates.refusals import list_refusals, refused_now
    from sapwood.templates.usage import References

    utf8(prefix, "PREFIX")
    with _opened(project, store) as opened:
        if errors:
            now = refused_now(opened.loaded.refused, opened.project)
            _print_errors([_error_row(error, now) for error in list_refusals(opened.store, prefix)], as_json)
            return
        versions = opened.store.list_versions(prefix)
        with opened.store.read() as reader:
            times = References(reader).use_times(version.key for version in versions)
        rows = _family_rows(prefix, versions, times, opened.loaded)
    if as_json:
        _print_json({"templates": rows, "refused": len(opened.loaded.refused)})
        return
    _print_tree(rows)
    if opened.loaded.refused:
        click.echo(f"refused files: {len(opened.loaded.refused)}; see sapwood templates list --errors", err=True)


@command.command()
@click.argument("version")
@store_options
def show(version: str, project: str, store: str | None, as_json: bool) -> None:
    """Print the text of VERSION: an id (its current version), ID@HASH, or a key."""
    from sapwood.templates.versions import find_named

    with _opened(project, store) as opened:
        _tell_refused(opened, [version])
        found = find_named(opened.store, version, opened.registry.current)
    if as_json:
        _print_json({"id": found.template_id.text, "text": found.text, **_version_row(found)})
    else:
        click.echo(visible(found.text), nl=not found.text.endswith("\n"))


@command.command()
@click.argument("versions", nargs=-1, required=True)
@store_options
def diff(versions: tuple[str, ...], project: str, store: str | None, as_json: bool) -> None:
    """Show how two versions differ; with one ID its current version against the newest other one."""
    from sapwood.templates.versions import find_pair, short_name, version_diff

    if len(versions) > 2:
        raise click.UsageError("give one id or two versions")
    with _opened(project, store) as opened:
        _tell_refused(opened, versions)
        old, new = find_pair(opened.store, versions, opened.registry.current)
    lines = list(version_diff(old, new))
    if as_json:
        _print_json({"old": short_name(old), "new": short_name(new), "diff": lines})
        return
    print_diff(lines)


@command.command()
@click.argument("version")
@store_options
def uses(version: str, project: str, store: str | None, as_json: bool) -> None:
    """Show which executions used VERSION, and when."""
    found, used = _uses(version, project, store)
    if as_json:
        _print_json({"id": found.template_id.text, **_version_row(found), "uses": [_use_row(use) for use in used]})
        return
    for use in used:
        when = _span(instant_of_ms(use.first_ms), instant_of_ms(use.last_ms))
        click.echo(f"{use.run}  {use.status:9}  prompts: {use.prompts}  {when}")
    if not used:
        click.echo("not used yet")


@command.command()
@click.argument("version")
@store_options
def outcomes(version: str, project: str, store: str | None, as_json: bool) -> None:
    """Show the outcome evidence of every execution that used VERSION."""
    found, used = _uses(version, project, store)
    if as_json:
        _print_json(
            {"id": found.template_id.text, **_version_row(found), "executions": [_use_row(use) for use in used]}
        )
        return
    for use in used:
        click.echo(f"{use.run}  {use.status}")
        for evidence in use.outcomes:
            click.echo(f"  {_passed(evidence.passed):8}  {one_line(evidence.name)}")
    if not used:
        click.echo("not used yet")


def _uses(version: str, project: str, store: str | None) -> tuple[TemplateVersion, list[Use]]:
    from sapwood.templates.usage import References
    from sapwood.templates.versions import find_named

    with _opened(project, store) as opened:
        _tell_refused(opened, [version])
        found = find_named(opened.store, version, opened.registry.current)
        with opened.store.read() as reader:
            return found, References(reader).uses(found.key)


def _tell_refused(opened: Opened, names: Sequence[str]) -> None:
    """Say which of these ids have a file that is refused: what is shown of them is stored and not in use."""
    for file in opened.loaded.refused:
        if file.template_id in names:
            where = one_line(_place(file))
            why = f"no text of {file.template_id} is in use; see sapwood templates list --errors"
            click.echo(f"{where} is refused, so {why}", err=True)


def _place(file: RefusedFile) -> str:
    return f"{file.path}:{file.line}" if file.line else str(file.path)


def _family_rows(prefix: str, versions: Sequence[TemplateVersion], times: Any, loaded: Loaded) -> list[dict[str, Any]]:
    """Return one row a family: its file, what that replaces or that it is refused, and its versions."""
    files = {file.static.template_id.text: file for file in loaded.files}
    replaced = {file.static.template_id.text: str(file.path) for file in loaded.replaced}
    rows: dict[str, dict[str, Any]] = {}
    for version in versions:
        name = version.template_id.text
        file = files.get(name)
        row = rows.setdefault(name, {"id": name, "versions": []})
        if file is not None:
            row |= {"file": str(file.path), "origin": file.origin.value}
        if name in replaced:
            row["replaces"] = replaced[name]
        first, last, executions = times.get(version.key, (None, None, 0))
        row["versions"].append(
            {
                **_version_row(version),
                "current": file is not None and file.static.content_hash == version.content_hash,
                "first_use": None if first is None else instant_of_ms(first),
                "last_use": None if last is None else instant_of_ms(last),
                "executions": executions,
            }
        )
    for refused in loaded.refused:
        family = refused.template_id
        if family and TemplateId(family).is_in_family(prefix):
            rows.setdefault(family, {"id": family, "versions": []}).setdefault("refused", []).append(_place(refused))
    return [rows[name] for name in sorted(rows)]


def _version_row(version: TemplateVersion) -> dict[str, Any]:
    return {
        "key": version.key.text,
        "content_hash": version.content_hash,
        "last_updated": instant_of_ms(version.last_updated_ms),
        "variables": list(version.variables),
    }


def _use_row(use: Use) -> dict[str, Any]:
    return {
        "run": use.run.text,
        "status": use.status,
        "first_use": instant_of_ms(use.first_ms),
        "last_use": instant_of_ms(use.last_ms),
        "prompts": use.prompts,
        "outcomes": [{"key": one.key.text, "name": one.name, "passed": one.passed} for one in use.outcomes],
    }


def _error_row(error: Any, now: set[tuple[str, str, str]]) -> dict[str, Any]:
    return {
        "key": error.key.text,
        "where": error.where,
        "code": error.code,
        "message": error.message,
        "seen": instant_of_ms(error.key.time_ms),
        "now": (error.code, error.message, error.where) in now,
    }


def _print_errors(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        _print_json({"errors": rows})
        return
    for row in rows:
        click.echo(
            visible(
                f"{'now' if row['now'] else 'earlier':9}{row['where']}: {row['message']} ({row['code']}, {row['seen']})"
            )
        )
    if not rows:
        click.echo("no template was refused")


def _print_tree(rows: list[dict[str, Any]]) -> None:
    from rich.text import Text
    from rich.tree import Tree

    top = Tree(Text("tpl"), hide_root=not rows)
    branches: dict[str, Tree] = {"tpl": top}
    for row in rows:
        branch = _branch(branches, row["id"])
        note = f"{row['origin']}, replaces the packaged one" if "replaces" in row else row.get("origin", "")
        if "refused" in row:
            note = one_line(f"refused: {', '.join(row['refused'])}")
        if note:
            branch.label = Text.assemble(row["id"].rpartition(".")[2], "  ", (note, "dim"))
        for version in row["versions"]:
            branch.add(Text(_version_line(version), style="bold" if version["current"] else ""))
    console = plain_console()
    if not console.is_terminal:
        console.width = MAX_LINE_CHARS  # whoever reads a pipe wants whole lines
    console.print(top if rows else Text("no templates"))


def _branch(branches: dict[str, Tree], name: str) -> Tree:
    from rich.text import Text

    if name not in branches:
        parent, _, last = name.rpartition(".")
        branches[name] = _branch(branches, parent).add(Text(last))
    return branches[name]


def _version_line(version: dict[str, Any]) -> str:
    used = "not used"
    if version["executions"]:
        used = f"executions: {version['executions']}, {_span(version['first_use'], version['last_use'])}"
    mark = "current, " if version["current"] else ""
    return f"@{version['content_hash'][:12]}  {mark}changed {_minute(version['last_updated'])}, {used}"


def _span(first: str, last: str) -> str:
    """Return a first and a last moment for people; one moment when they fall into one minute."""
    start, end = _minute(first), _minute(last)
    return start if start == end else f"{start} to {end}"


def _minute(instant: str) -> str:
    """Return an instant to the minute: `2026-11-18 11:18Z`."""
    return f"{instant[:10]} {instant[11:16]}Z"


def _passed(passed: bool | None) -> str:
    return "unknown" if passed is None else "passed" if passed else "failed"


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))
