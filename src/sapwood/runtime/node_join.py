"""A join node: the reports of its selected predecessors as one, in the order of the file."""

from __future__ import annotations

import asyncio

from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import JoinNode
from sapwood.runtime.journal import Journal
from sapwood.runtime.upstream import upstream
from sapwood.runtime.world import Done, Work


async def gather(_node: JoinNode, work: Work, journal: Journal) -> Done:
    reports = await asyncio.to_thread(upstream, work, journal)
    text = "\n\n".join(f"## {report.node_key}\n\n{report.content}" for report in reports)
    return Done(ProviderResult(report=text, data={"joined": [report.node_key for report in reports]}))
