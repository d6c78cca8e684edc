"""`sapwood demo`: runs a real workflow of several agents offline, shows its record, and verifies it."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sapwood.cli.running import opened_runner, settings_of
from sapwood.cli.stops import Stops

if TYPE_CHECKING:
    from sapwood.core.keys import ArtifactKey
    from sapwood.core.tree import ArtifactTree
    from sapwood.runtime.session import Store

FILES = Path(__file__).parent.parent / "demo_project"
SHOWN = "draft"
"""The node whose context is shown: it reads two branches, one of them too long."""
WORDS = {
    "Input": "input",
    "RenderedPrompt": "prompt",
    "PromptContribution": "entry",
    "EventArtifact": "event",
    "MessageStreamArtifact": "event",
    "IngestedFile": "file",
    "Report": "report",
    "Log": "log",
    "OutcomeEvidence": "evidence",
}


@click.command("demo")
@click.option("--keep", type=click.Path(file_okay=False), help="Run it in this folder and keep everything there.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(keep: str | None, as_json: bool) -> None:
    """Run a workflow of several agents, offline: branches, a retry, a critique loop, a fan-out, a join, written files.

    Then show the tree it left, what one agent saw, and that the record is whole.
    """
    with project_folder(keep) as project:
        with Stops() as stops, opened_runner(settings_of(project=str(project)), create=True) as runner:
            from sapwood.cli.following import watch

            workflow = runner.load(project / "flow.yaml")
            seen = watch(runner, lambda: runner.start(workflow, {"python": sys.executable}), stops, is_quiet=as_json)
            if seen.view.status == "interrupted":
                raise SystemExit(seen.exit_code)
            checked = runner.store.verify(seen.run_key)
            if as_json:
                summary = {"run": seen.view.run, "status": seen.view.status, "artifacts": checked.artifacts}
                click.echo(json.dumps({**summary, "head": checked.head, "ok": checked.is_ok}))
            else:
                show_record(runner.store, seen.run_key, project)
                click.echo(f"verified  {checked.artifacts} artifacts, {len(checked.findings)} findings")
                click.echo(f"head      {checked.head}")
                click.echo("\nKeep head and status anywhere else: they expose any later change of the record.")
        for finding in checked.findings:
            click.echo(f"{finding.code}  {finding.key}  {finding.message}", err=True)
        if not as_json:
            kept = f"Everything is in {keep}: cd {shlex.quote(keep or '')} && sapwood show {seen.view.run}"
            click.echo(kept if keep else "The folder of this run is gone now; to keep one: sapwood demo --keep FOLDER")
    raise SystemExit(0 if checked.is_ok and seen.view.status == "completed" else max(seen.exit_code, 1))


@contextmanager
def project_folder(keep: str | None) -> Iterator[Path]:
    """Give a folder with the demo's files: the one to keep, or one that is gone afterwards."""
    if keep is not None:
        yield Path(shutil.copytree(FILES, keep, dirs_exist_ok=True))
        return
    with tempfile.TemporaryDirectory(prefix="sapwood-demo-") as folder:
        yield Path(shutil.copytree(FILES, Path(folder) / "project"))


def show_record(store: Store, run: ArtifactKey, project: Path) -> None:
    """Print the tree of the run, what one node saw, and the files that were written."""
    from sapwood.cli.commands.context import show_context
    from sapwood.runtime.contextview import load_context

    width = shutil.get_terminal_size((100, 24)).columns
    click.echo("\nThe tree it left:")
    for line in draw(store.load(run)):
        click.echo(line if len(line) <= width else line[: width - 3] + "...")
    click.echo()
    with store.artifacts.read() as reader:
        show_context(load_context(reader, run, SHOWN, 1))
    written = sorted(path for folder in ("docs", "workspace") for path in (project / folder).rglob("*"))
    names = [str(path.relative_to(project)) for path in written if path.is_file()]
    click.echo("\n" + textwrap.fill(f"written   {', '.join(names)}", width, subsequent_indent=" " * 10))


def draw(tree: ArtifactTree) -> list[str]:
    """Return the tree down to its agents, one line each, with what stands below them counted."""
    from sapwood.core.artifacts import AgentRequest
    from sapwood.core.codec import from_record

    lines: list[tuple[ArtifactKey, str, Counter[str]]] = []
    for record in tree.walk():
        if record.kind == "AgentRequest" or record.key.depth <= 2:
            request = from_record(record) if record.kind == "AgentRequest" else None
            named = f"{request.node}, attempt {request.attempt}" if isinstance(request, AgentRequest) else record.kind
            lines.append((record.key, named, Counter()))
        else:
            counts = next(counts for above, _, counts in reversed(lines) if above.is_ancestor_of(record.key))
            counts[WORDS.get(record.kind, "other")] += 1
    levels = sorted({key.depth for key, _, _ in lines})
    titles = [f"{'  ' * levels.index(key.depth)}{named}" for key, named, _ in lines]
    width = max(map(len, titles)) + 2
    drawn = zip(titles, lines, strict=True)
    return [f"{title.ljust(width)}{_counted(counts)}".rstrip() for title, (_, _, counts) in drawn]


def _counted(counts: Counter[str]) -> str:
    words = [*dict.fromkeys(WORDS.values()), "other"]
    plurals = {"entry": "entries", "evidence": "evidence"}
    named = {word: word if counts[word] == 1 else plurals.get(word, f"{word}s") for word in words}
    return ", ".join(f"{counts[word]} {named[word]}" for word in words if counts[word])
