"""`sapwood context RUN NODE`: what a node saw, entry by entry, what was cut or dropped, and by which rule."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from sapwood.cli.bars import bar
from sapwood.cli.console import plain_console
from sapwood.cli.opened import open_existing, store_options
from sapwood.cli.rows import counted, print_rows
from sapwood.cli.untrusted import print_exactly, visible
from sapwood.core.keys import ArtifactKey
from sapwood.errors import NotFound
from sapwood.runtime.contextview import SeenContext, SeenEntry, changed_policy, load_context, with_policy


@click.command("context")
@click.argument("run", metavar="RUN|WORKFLOW")
@click.argument("node")
@click.option("--attempt", type=click.IntRange(1), help="Which attempt; the last one if not given.")
@click.option("--entry", type=click.IntRange(1), metavar="N", help="Print the exact bytes of entry N.")
@click.option("--phase", "show_phase", is_flag=True, help="Print the exact text of earlier phases in the prompt.")
@click.option("--diff", "show_cuts", is_flag=True, help="Show what was cut out.")
@click.option("--policy", "changes", multiple=True, metavar="NAME=NUMBER", help="What would it see under this bound?")
@click.option("--preview", is_flag=True, help="What would NODE of WORKFLOW, a file or a built-in one, get at most?")
@store_options
def command(
    run: str,
    node: str,
    attempt: int | None,
    entry: int | None,
    show_phase: bool,
    show_cuts: bool,
    changes: tuple[str, ...],
    preview: bool,
    store: str | None,
    project: str,
    as_json: bool,
) -> None:
    """Show what NODE of RUN saw: source, order, how much of each report, what was cut or dropped and by which rule.

    With --policy nothing is run or recorded: the same candidates are placed again under the bounds you give. With
    --preview no run is needed.
    """
    if preview:
        if attempt is not None or entry is not None or show_phase or show_cuts or store is not None:
            raise click.UsageError("--preview goes with --policy, --project and --json only: nothing has run yet")
        _preview(run, node, project, changes, as_json)
        return
    if as_json and (entry is not None or show_phase):
        raise click.UsageError("--entry and --phase print exact bytes, which are no JSON: leave --json out")
    with open_existing(store, project) as opened, opened.artifacts.read() as reader:
        seen = load_context(reader, ArtifactKey(run), node, attempt)
        if changes:
            seen = with_policy(reader, seen, changed_policy(seen.policy, changes))
    if entry is not None:
        print_exactly(_entry_text(seen, entry).encode())
    elif show_phase:
        print_exactly(_phase_text(seen).encode())
    elif as_json:
        click.echo(json.dumps(_as_data(seen), ensure_ascii=True, indent=2))
    else:
        show_context(seen, is_what_if=bool(changes), show_cuts=show_cuts)


def _preview(workflow: str, node: str, project: str, changes: tuple[str, ...], as_json: bool) -> None:
    from sapwood.app.checking import preview_here
    from sapwood.cli.preview import show_preview

    found = preview_here(workflow, node, project, changes)
    if as_json:
        data = {**dataclasses.asdict(found), "most_chars": found.most_chars}
        click.echo(json.dumps(data, ensure_ascii=True, indent=2))
    else:
        show_preview(found)


def _entry_text(seen: SeenContext, number: int) -> str:
    if number > len(seen.entries):
        raise NotFound(f"entry {number}", f"the context of {seen.node} has {len(seen.entries)}")
    text = seen.entries[number - 1].text
    if not text:
        raise NotFound(f"the text of entry {number}", f"{seen.node} gathers reports; no provider got them as entries")
    return text


def _phase_text(seen: SeenContext) -> str:
    if not seen.phase_text:
        raise NotFound(f"the text of earlier phases in the prompt of {seen.node}", "it has no phase, or is the first")
    return seen.phase_text


def _as_data(seen: SeenContext) -> dict[str, Any]:
    names = ("run", "node", "attempt", "recorded_in", "manifest", "phase_text")
    budgets = ("phase", "original_tokens", "budget_tokens", "truncated_tokens", "was_truncated", "estimator")
    return {
        **{name: getattr(seen, name) for name in names},
        "policy": dataclasses.asdict(seen.policy),
        "entries": [dataclasses.asdict(entry) for entry in seen.entries],
        "dropped": [dataclasses.asdict(one) for one in seen.dropped],
        "budgets": [{name: _or_null(getattr(one, name)) for name in budgets} for one in seen.budgets],
    }


def _or_null(value: Any) -> Any:
    return None if value is msgspec.UNSET else value


def show_context(seen: SeenContext, *, is_what_if: bool = False, show_cuts: bool = False) -> None:
    """Print what a node saw, or would see."""
    from rich.text import Text

    console = plain_console()
    would = "would see" if is_what_if else "saw"
    console.print(Text(f"{seen.node}, attempt {seen.attempt}, {would} {_count(seen)}"), soft_wrap=True)
    if seen.entries or seen.dropped:
        print_rows(console, ("#", "source", "kind", "id", "before", "after", "rule"), _rows(seen))
    used = sum(entry.included_chars for entry in seen.entries)
    console.print(Text(f"chars   {bar(used, seen.policy.max_context_chars_total)}"), soft_wrap=True)
    for budget in seen.budgets:
        console.print(Text(f"tokens  {bar(budget.truncated_tokens, budget.budget_tokens)}, phase {budget.phase}"))
    for note in _notes(seen):
        console.print(Text(note), soft_wrap=True)
    if show_cuts:
        for number, entry in enumerate(seen.entries, 1):
            for line in _cut_lines(number, entry):
                console.print(Text(visible(line)), soft_wrap=True)


def _rows(seen: SeenContext) -> Sequence[Sequence[str]]:
    rows = [
        (
            str(number),
            entry.source,
            entry.kind,
            "" if entry.artifact_id is None else str(entry.artifact_id),
            f"{entry.original_chars:,}",
            f"{entry.included_chars:,}",
            entry.rule or "whole",
        )
        for number, entry in enumerate(seen.entries, 1)
    ]
    dropped = [("-", d.source, "report", str(d.artifact_id), f"{d.chars:,}", "dropped", d.rule) for d in seen.dropped]
    return rows + dropped


def _count(seen: SeenContext) -> str:
    many = len(seen.entries)
    return counted(many, "entry", "entries") + (f", {len(seen.dropped)} dropped" if seen.dropped else "")


def _notes(seen: SeenContext) -> list[str]:
    manifest = seen.manifest
    notes = {
        "missing_upstream_artifacts": "no upstream report was included",
        "no_eligible_artifact_types": "its predecessors left artifacts, but no report",
        "delimiter_in_content": "an envelope delimiter stands in the text of",
        "envelope_in_content": "an envelope header stands in the text of",
        "invisible_chars": "invisible characters stand in the text of",
    }
    phase = [f"earlier phases: {len(seen.phase_text):,} characters in the prompt (--phase)"] if seen.phase_text else []
    shown = [(text, manifest[name]) for name, text in notes.items() if manifest[name]]
    return phase + [text if ids is True else f"{text} artifact {', '.join(map(str, ids))}" for text, ids in shown]


def _cut_lines(number: int, entry: SeenEntry) -> list[str]:
    if not entry.dropped_chars:
        return []
    if entry.cut_text is None:
        return [f"entry {number}: {entry.dropped_chars:,} chars were cut; the original is not kept"]
    head = entry.included_chars // 2
    title = f"entry {number}, {entry.source}: cut chars {head:,} to {head + entry.dropped_chars:,}"
    return [title, *(f"- {line}" for line in entry.cut_text.split("\n"))]
