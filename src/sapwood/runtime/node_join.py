"""A join node: the reports of its selected predecessors, of a spawn those of its children, as one, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from sapwood.core.artifacts import AgentRequests, Report
from sapwood.core.codec import from_record
from sapwood.core.handoff import HandoffPolicy, assemble_handoff
from sapwood.core.instants import instant_of_ms
from sapwood.core.provider import ProviderResult
from sapwood.core.schedule import selected_predecessors
from sapwood.core.workflow import JoinNode
from sapwood.ports import Reader
from sapwood.runtime.context import to_upstream
from sapwood.runtime.history import Attempt, load_artifact
from sapwood.runtime.journal import Journal
from sapwood.runtime.world import Done, Work


async def gather(_node: JoinNode, work: Work, journal: Journal) -> Done:
    reports = await asyncio.to_thread(_reports, work, journal)
    text = "\n\n".join(f"## {report.node_key}\n\n{report.text}" for report in reports)
    result = ProviderResult(report=text, data={"joined": [report.node_key for report in reports]})
    return Done(result, manifest=_manifest(reports, work, journal))


def _manifest(reports: list[Report], work: Work, journal: Journal) -> dict[str, Any]:
    """Return the account of what was gathered: every report, whole, in this order."""
    upstream = [to_upstream(report, place) for place, report in enumerate(reports)]
    total = sum(one.chars for one in upstream)
    return assemble_handoff(
        upstream,
        workflow_run_id=work.plan.workflow_run_id,
        target_node_key=work.node.key,
        assembled_at=instant_of_ms(journal.world.store.clock()),
        policy=HandoffPolicy(len(upstream), total, total, min_remaining_chars=0),
    ).manifest


def _reports(work: Work, journal: Journal) -> list[Report]:
    level = work.level
    with journal.world.store.artifacts.read() as reader:
        keys = [
            one.report_key
            for source in selected_predecessors(level.workflow, level.progress.state, work.node.key)
            for one in _sources(reader, work, work.history.attempts_here(source)[-1])
        ]
        records = [reader.find(key) for key in keys if key is not None]
    found = [from_record(record) for record in records if record is not None]
    return [one for one in found if isinstance(one, Report)]


def _sources(reader: Reader, work: Work, attempt: Attempt) -> Iterator[Attempt]:
    """Yield the attempt itself, or the last one of each child it fanned out, in the order of the items."""
    if attempt.dispatch is None:
        yield attempt
        return
    names = load_artifact(reader, attempt.dispatch, AgentRequests).names
    for name in names if isinstance(names, tuple) else ():
        tried = work.history.attempts.get(f"{attempt.node}.{name}", [])
        yield from [one for one in tried if one.request.parent == attempt.dispatch][-1:]
