"""A workflow node: its nodes have ended when it is called; what its last nodes gave is what it gives."""

from __future__ import annotations

import asyncio

from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import WorkflowNode
from sapwood.errors import SpawnRefused
from sapwood.runtime.history import Attempt, Level
from sapwood.runtime.journal import Journal
from sapwood.runtime.loading import find_report
from sapwood.runtime.opening import opening_of
from sapwood.runtime.world import Done, Work


async def end_sub_workflow(node: WorkflowNode, work: Work, journal: Journal) -> Done:
    level = work.history.levels.get(node.key)
    if level is None:
        opening_of(node, work.level, work.history)
        raise SpawnRefused(node.key, "its workflow was never started")
    return await asyncio.to_thread(_end, node, work, level, journal)


def _end(node: WorkflowNode, work: Work, level: Level, journal: Journal) -> Done:
    """Return the result of the one node it ended with, or of all of them together."""
    if level.progress.outcome == "failure":
        where = ", ".join(f"{key} ({why})" for key, why in level.progress.state.endings)
        return Done(ProviderResult(), error=f"workflow {node.workflow} failed at {where}")
    last = _last(work, level)
    with journal.world.store.artifacts.read() as reader:
        reports = [find_report(reader, attempt.report_key) for attempt in last]
    if len(last) == 1 and last[0].result is not None and reports[0] is not None:
        end, report = last[0].result, reports[0]
        data = end.result if isinstance(end.result, dict) else {}
        return Done(ProviderResult(report.text, report.content_type, end.decision or None, data))  # type: ignore[arg-type]  # checked when it was recorded
    text = "\n\n".join(f"## {one.node_key}\n\n{one.text}" for one in reports if one is not None)
    return Done(ProviderResult(text, data={"ended": [attempt.node for attempt in last]}))


def _last(work: Work, level: Level) -> list[Attempt]:
    """Return the attempts that the workflow ended with, in the order of its file: they completed and led nowhere."""
    ended = []
    for node in level.workflow.nodes:
        tried = work.history.attempts_here(node.key)
        selection = tried[-1].selection if tried else None
        is_done = level.progress.state.nodes[node.key].status == "completed"
        if is_done and selection is not None and not selection.selected:
            ended.append(tried[-1])
    return ended
