"""`sapwood ingest`: write the files a document declares, put back what was there before, list what landed."""

from __future__ import annotations

import difflib
import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli.console import plain_console
from sapwood.cli.rows import counted
from sapwood.cli.untrusted import print_diff, visible
from sapwood.clock import KeyFactory
from sapwood.core.fences import parse_fences
from sapwood.core.hashing import hash_bytes
from sapwood.core.ingest_manifest import Source, build_manifest, shown
from sapwood.core.ingest_settings import IngestSettings
from sapwood.core.verdicts import Verdict, judge
from sapwood.errors import NotFound
from sapwood.ingest.beneath import Blocked
from sapwood.ingest.checks import DEFAULT_VALIDATORS, Validators, check_landed, save_checks
from sapwood.ingest.hooks import IngestHooks, Origin
from sapwood.ingest.ingest import Ingested, instant, raise_if_asked, with_outcome
from sapwood.ingest.recorded import artifacts_of
from sapwood.ingest.staging import Draft
from sapwood.ingest.undo import is_undone, undo_manifest, undone_paths
from sapwood.ingest.workspace import WORKSPACE, Project
from sapwood.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

NODE = "cli"
_STYLES = {"written": "green", "skipped": "yellow", "rejected": "red"}
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_project = click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="The project directory. Files go below its workspace/.",
)


class _FileFirst(click.Group):
    """Takes everything that is not one of its commands for the document to ingest."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help", "-h"):
            args = ["file", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_FileFirst,
    subcommand_metavar="FILE|- [OPTIONS] | undo MANIFEST | log",
    epilog="A document that is called undo, log or file: write ./undo.",
)
def command() -> None:
    """Write the files that a document declares in fences like ```python file=src/main.py below workspace/."""


@command.command("file")
@click.argument("file", metavar="FILE|-", type=click.Path(allow_dash=True))
@_project
@click.option("--dry-run", is_flag=True, help="Write nothing; show a diff of what would change.")
@click.option("--check", is_flag=True, help="Run the configured validators on what was written.")
@click.option("--store", help="Also record the document, its files and what they replaced as a run of this store.")
@_as_json
def ingest_file(file: str, project: Path, dry_run: bool, check: bool, store: str | None, as_json: bool) -> None:
    """Ingest FILE, or standard input for `-`. Exit code 1: a block was rejected, or a check said no."""
    document = _read(file)
    given = dict(Settings.read({"project": str(project)}, os.environ).ingest)
    validators: Validators = {**DEFAULT_VALIDATORS, **given.pop("validators", {})}
    rules = IngestSettings.of(given)
    name = "-" if file == "-" else Path(file).name
    if dry_run:
        source = Source(KeyFactory().root().text, NODE, "cli", "unknown", name)
        _show_plan(document, project, source, rules, as_json=as_json)
        return
    job = _Job(document, project, name, rules, validators if check else {})
    done, checks = job.run(KeyFactory().root().text) if store is None else job.run_recorded(store)
    raise_if_asked(done, rules)
    if as_json:
        answer = {"manifest": done.manifest, "manifest_path": done.manifest_path, "problems": done.problems}
        _print_json({**answer, "checks": checks} if check else answer)
    else:
        _print_blocks(done.manifest, done.manifest_path)
        _print_checks(checks)
    for problem in done.problems:
        click.echo(f"sapwood: ingest: {problem}", err=True)
    if done.manifest["summary"]["rejected"] or done.problems or any(result["ok"] is False for result in checks):
        sys.exit(1)


@dataclass(frozen=True, slots=True)
class _Job:
    """One document to ingest from the command line."""

    document: str
    project: Path
    name: str
    rules: IngestSettings
    validators: Validators

    def run(self, run_id: str) -> tuple[Ingested, list[dict[str, Any]]]:
        """Write the files, and look at them with the validators."""
        hooks = IngestHooks(self.project, self.rules, is_on_for_text=True)
        done = hooks.after_text(self.document, self.name, Origin(run_id, NODE))
        assert done is not None  # it is on, and the run is new
        checks = check_landed(done, self.project, self.validators)
        if checks and done.manifest_path:
            with suppress(Blocked, OSError), Project(self.project) as opened:
                save_checks(opened, done.manifest_path, checks)
        return done, checks

    def run_recorded(self, url: str) -> tuple[Ingested, list[dict[str, Any]]]:
        """Do the same inside a small run of its own."""
        from sapwood.app import open_store

        data = self.document.encode("utf-8", "surrogateescape")
        about = {"doc_path": shown(self.name), "bytes": len(data), "sha256": hash_bytes(data)}
        given = {"document": about}
        with open_store(url) as store, store.record(inputs=given) as run, run.agent(NODE, request=about) as agent:
            done, checks = self.run(run.key.text)
            for artifact in artifacts_of(done, self.project, agent.key, run.keys.child):
                agent.add(artifact)
            if checks:
                agent.log(json.dumps({"checks": checks}), content_type="json")
            raise_if_asked(done, self.rules)
        return done, checks


@command.command("undo")
@click.argument("manifest", type=click.Path(path_type=Path))
@_as_json
def undo(manifest: Path, as_json: bool) -> None:
    """Put back what stood there before the document of MANIFEST was ingested. Exit code 1: a file was left alone."""
    folder = manifest.absolute().parent
    if (folder.parent.name, folder.parent.parent.name) != ("ingest", ".sapwood"):
        raise NotFound(f"manifest {manifest}", "give a path like .sapwood/ingest/<run>/<node>-1-1.json")
    done = undone_paths(undo_manifest(folder.parent.parent.parent, manifest))
    if as_json:
        _print_json([{"path": path, "what": what} for path, what in done])
    for path, what in () if as_json else done:
        click.echo(f"{what:10} {visible(path)}")
    if any(what not in ("restored", "removed") for _, what in done):
        sys.exit(1)


@command.command("log")
@_project
@click.option("--all", "show_all", is_flag=True, help="Also list what was skipped and rejected.")
@_as_json
def log(project: Path, show_all: bool, as_json: bool) -> None:
    """List what landed where, and from which run and node."""
    rows = [row for row in _landed(project) if show_all or row["status"] == "written"]
    if as_json:
        _print_json(rows)
        return
    for (ts, run, node, manifest), landed in groupby(rows, itemgetter("ts", "run_id", "node_id", "manifest")):
        files = list(landed)
        click.echo(visible(f"{ts}  {run}  {node}{'  (undone)' if files[0]['undone'] else ''}\n  {manifest}"))
        for row in files:
            place = row["workspace_path"] or row["declared_file"]
            click.echo(visible(f"  {row['status']:8}  {place}  {row['reason']}".rstrip()))


def _read(file: str) -> str:
    if file == "-" and sys.stdin is None:
        raise NotFound("a document on standard input", "it is closed; name a file")
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        raise NotFound(f"document {file}") from None
    return data.decode("utf-8", "surrogateescape")  # a block that is not UTF-8 is refused, the others are not


def _show_plan(document: str, folder: Path, source: Source, rules: IngestSettings, *, as_json: bool) -> None:
    verdicts = judge(parse_fences(document), rules)
    open_at = [place for place, verdict in enumerate(verdicts) if verdict.status == "written"]
    diffs: list[str] = []
    with Project(folder) as project:
        outcomes, _ = project.write(WORKSPACE, [Draft(verdicts[at].parts, verdicts[at].data) for at in open_at])
        for place, outcome in zip(open_at, outcomes, strict=True):
            verdicts[place] = with_outcome(verdicts[place], outcome)
            if not outcome.reason:
                diffs += _diff(project, verdicts[place])
    manifest = build_manifest(source, verdicts, instant(KeyFactory().root().time_ms))
    if as_json:
        _print_json({"manifest": manifest, "diff": "\n".join(diffs)})
    else:
        _print_blocks(manifest, "")
        print_diff(diffs)
        click.echo("dry run: nothing was written")
    if manifest["summary"]["rejected"]:
        sys.exit(1)


def _diff(project: Project, verdict: Verdict) -> list[str]:
    before = b""
    with suppress(FileNotFoundError):
        before = project.read(WORKSPACE, verdict.parts)
    path = "/".join((WORKSPACE, *verdict.parts))
    old, new = (_lines(data) for data in (before, verdict.data))
    return list(difflib.unified_diff(old, new, f"a/{path}" if before else "/dev/null", f"b/{path}", lineterm=""))


def _lines(data: bytes) -> list[str]:
    return data.decode(errors="replace").removesuffix("\n").split("\n") if data else []


def _landed(folder: Path) -> list[dict[str, Any]]:
    rows = []
    with Project(folder) as project:
        for path in sorted(folder.glob(".sapwood/ingest/*/*.json")):
            if path.name.endswith(".checks.json"):
                continue
            try:
                manifest = json.loads(path.read_bytes())
                common = {name: manifest[name] for name in ("run_id", "node_id", "ts")}
                common |= {"manifest": str(path.relative_to(folder))}
                common |= {"undone": is_undone(project, path.parent.name, path.stem)}
                rows += [{**common, **entry} for entry in manifest["artifacts"]]
            except (OSError, ValueError, KeyError, TypeError):
                click.echo(f"sapwood: not a manifest: {visible(str(path))}", err=True)
    return sorted(rows, key=lambda row: (row["ts"], row["manifest"], row["index"]))


def _print_blocks(manifest: dict[str, Any], path: str) -> None:
    table = _table("#", "lang", "declared", "bytes", "status", "reason")
    for entry in manifest["artifacts"]:
        cells = (str(entry["index"]), entry["lang"][:40], entry["declared_file"][:400], str(entry["bytes"]))
        _add_row(table, *cells, entry["status"], entry["reason"], style=_STYLES[entry["status"]])
    _print_table(table)
    summary = manifest["summary"]
    counts = ", ".join(f"{summary[status]} {status}" for status in _STYLES)
    click.echo(f"{counted(summary['total_blocks'], 'block')}: {counts}" + (f"; manifest {path}" if path else ""))


def _print_checks(checks: list[dict[str, Any]]) -> None:
    for result in checks:
        said = {True: "ok", False: "FAILED", None: "not run"}[result["ok"]]
        click.echo(visible(f"check {said:8} {result['path']} ({result['validator']}) {result['words']}".rstrip()))


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _add_row(table: Table, *cells: str, style: str = "") -> None:
    from rich.text import Text

    table.add_row(*(Text(visible(cell)) for cell in cells), style=style)


def _print_table(table: Table) -> None:
    if table.row_count:
        is_seen = sys.stdout.isatty()
        plain_console(None if is_seen else 200).print(table, soft_wrap=not is_seen)


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))
