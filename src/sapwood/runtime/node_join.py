"""A join node: the reports of its selected predecessors, of a spawn those of its children, as one, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from sapwood.core.artifacts import AgentRequests, Report
from sapwood.core.handoff import account_for
from sapwood.core.instants import instant_of_ms
from sapwood.core.provider import ProviderResult
from sapwood.core.schedule import selected_predecessors
from sapwood.core.workflow import JoinNode
from sapwood.ports import Reader
from sapwood.runtime.context import to_upstream
from sapwood.runtime.history import Attempt
from sapwood.runtime.journal import Journal
from sapwood.runtime.loading import load_artifact
from sapwood.runtime.world import Done, Work


async def gather(_node: JoinNode, work: Work, journal: Journal) -> Done:
    joined = await asyncio.to_thread(_joined, work, journal)
    results = {one.node: one.result.result for one, _ in joined if one.result is not None}
    result = ProviderResult(
        report="\n\n".join(_section(one, report) for one, report in joined),
        data={"joined": [one.node for one, _ in joined], "results": results},
    )
    gathered = (to_upstream(report, place) for place, (_, report) in enumerate(joined))
    return Done(result, manifest=account_for(gathered, instant_of_ms(journal.world.store.clock())))


def _section(attempt: Attempt, report: Report) -> str:
    """Return a report under its node's name, and after it the structured result, if it has one to show."""
    parts = [f"## {attempt.node}", report.text]
    if attempt.result is not None and attempt.result.result:
        parts.append(attempt.result.serialize(for_="results"))
    return "\n\n".join(parts)


def _joined(work: Work, journal: Journal) -> list[tuple[Attempt, Report]]:
    level = work.level
    with journal.world.store.artifacts.read() as reader:
        sources = [
            one
            for source in selected_predecessors(level.workflow, level.progress.state, work.node.key)
            for one in _sources(reader, work, work.history.attempts_here(source)[-1])
        ]
        return [(one, load_artifact(reader, one.report_key, Report)) for one in sources if one.report_key is not None]


def _sources(reader: Reader, work: Work, attempt: Attempt) -> Iterator[Attempt]:
    """Yield the attempt itself, or the last one of each child it fanned out, in the order of the items."""
    if attempt.dispatch is None:
        yield attempt
        return
    names = load_artifact(reader, attempt.dispatch, AgentRequests).names
    for name in names if isinstance(names, tuple) else ():
        tried = work.history.attempts.get(f"{attempt.node}.{name}", [])
        yield from [one for one in tried if one.request.parent == attempt.dispatch][-1:]
