"""A join node: the reports of its selected predecessors as one, in the order of the file."""

from __future__ import annotations

import asyncio

from sapwood.core.handoff import UpstreamArtifact
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import JoinNode
from sapwood.runtime.context import load_upstream
from sapwood.runtime.journal import Journal
from sapwood.runtime.visits import visits_of
from sapwood.runtime.world import Done, Work


async def gather(_node: JoinNode, work: Work, journal: Journal) -> Done:
    reports = await asyncio.to_thread(_reports, work, journal)
    text = "\n\n".join(f"## {report.node_key}\n\n{report.content}" for report in reports)
    return Done(ProviderResult(report=text, data={"joined": [report.node_key for report in reports]}))


def _reports(work: Work, journal: Journal) -> list[UpstreamArtifact]:
    with journal.world.store.artifacts.read() as reader:
        found = load_upstream(reader, visits_of(work), work.node.key)
    reports = [one for one in found if one.artifact_type == "report"]
    return sorted(reports, key=lambda one: (one.sequence_index, one.run_node_id))
