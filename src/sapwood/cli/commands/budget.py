"""`sapwood budget stats`: what the recorded budget results say about the budgets."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

import click
import msgspec

from sapwood.cli.console import plain_console
from sapwood.cli.opened import open_existing, store_options
from sapwood.cli.rows import print_rows
from sapwood.core.artifacts import BudgetResult
from sapwood.core.budgetstats import AppliedBudget, BudgetStats, summarise_budgets
from sapwood.core.codec import from_record
from sapwood.core.keys import ArtifactKey
from sapwood.errors import NotFound
from sapwood.ports import Reader


@click.group("budget")
def command() -> None:
    """Look at token budgets."""


@command.command("stats")
@click.argument("run", required=False)
@store_options
def stats(run: str | None, store: str | None, project: str, as_json: bool) -> None:
    """Show how often each phase and node was truncated, by how much, and which budgets are too tight or never used.

    Of one RUN, or of every run in the store.
    """
    wanted = None if run is None else ArtifactKey(run)
    with open_existing(store, project) as opened, opened.artifacts.read() as reader:
        if wanted is not None and reader.find(wanted) is None:
            raise NotFound(f"run {wanted}", "`sapwood runs` lists what is stored")
        found = summarise_budgets(_results(reader, wanted))
    if as_json:
        rows = [{**dataclasses.asdict(one), "verdict": one.verdict} for one in found]
        click.echo(json.dumps(rows, ensure_ascii=True, indent=2))
    else:
        _show(found)


def _results(reader: Reader, run: ArtifactKey | None) -> Iterator[AppliedBudget]:
    for record in reader.load_kinds(run, ["BudgetResult"]):
        one = from_record(record)
        if isinstance(one, BudgetResult):
            yield AppliedBudget(
                one.phase if isinstance(one.phase, int) else None,
                "" if isinstance(one.node, msgspec.UnsetType) else str(one.node),
                "" if isinstance(one.estimator, msgspec.UnsetType) else str(one.estimator),
                one.original_tokens,
                one.budget_tokens,
                one.truncated_tokens,
                one.was_truncated,
            )


def _show(found: list[BudgetStats]) -> None:
    if not found:
        click.echo("No budget has been applied yet.")
        return
    titles = ("phase", "node", "budget", "counted by", "applied", "cut", "median", "largest", "tokens lost", "verdict")
    rows = []
    for one in found:
        cells = (one.phase, one.node, one.budget_tokens, one.estimator, one.applied, one.truncated)
        sizes = (one.median_original_tokens, one.max_original_tokens, one.dropped_tokens, one.verdict)
        rows.append([_cell(cell) for cell in (*cells, *sizes)])
    print_rows(plain_console(), titles, rows)


def _cell(value: int | str | None) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else value
