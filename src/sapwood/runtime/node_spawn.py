"""A spawn node: its children have ended when it is called; it says how, and what they gave, in the Results form."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sapwood.core.artifacts import AgentResult
from sapwood.core.extensions import JoinChild, join_table
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import SpawnNode
from sapwood.errors import SpawnRefused
from sapwood.ports import Reader
from sapwood.runtime.history import Attempt
from sapwood.runtime.journal import Journal
from sapwood.runtime.loading import find_report
from sapwood.runtime.opening import opening_of
from sapwood.runtime.world import Done, Work

LINE_CHARS: Final = 240


async def join_children(node: SpawnNode, work: Work, journal: Journal) -> Done:
    if work.attempt.dispatch is None:
        opening_of(node, work.level, work.history)
        raise SpawnRefused(node.key, "its children were never sent out")
    return await asyncio.to_thread(_join, node, work, journal)


def _join(node: SpawnNode, work: Work, journal: Journal) -> Done:
    level = work.history.levels[node.key]
    ends: dict[str, Any] = {}
    lines: list[JoinChild] = []
    results: list[str] = []
    with journal.world.store.artifacts.read() as reader:
        for child in level.workflow.nodes:
            attempt = work.history.attempts_here(child.key)[-1]
            result = attempt.result
            assert result is not None
            ends[level.frame.name_of(child.key)] = _end(result)
            index = level.frame.sequence_index(child.key)
            summary = _summary(reader, attempt)
            lines.append(JoinChild(child.key, index, attempt.run_node_id, attempt.number, result.status, summary))
            if result.result:
                results.append(f"## {child.key}\n\n{result.serialize(for_='results')}")
    failed = [name for name, end in ends.items() if end["status"] != "completed"]
    report = "\n\n".join([join_table(lines, LINE_CHARS), *results])
    data = {"children": ends, "completed": len(ends) - len(failed), "failed": len(failed)}
    is_failure = bool(failed) and node.child_errors == "fail"
    error = f"{len(failed)} of {len(ends)} children failed, the first: {failed[0]}" if is_failure else None
    return Done(ProviderResult(report, data=data), error=error)


def _end(result: AgentResult) -> dict[str, Any]:
    return {"status": result.status, "decision": result.decision, "result": result.result}


def _summary(reader: Reader, attempt: Attempt) -> str:
    """Return the beginning of what the child handed on, or why it failed."""
    report = find_report(reader, attempt.report_key)
    if report is not None:
        return report.text[: 4 * LINE_CHARS]
    return str(attempt.result.error or "") if attempt.result is not None else ""
