"""A write_file node: hands on the text that its document is to hold; whoever ends the attempt writes the document."""

from __future__ import annotations

import asyncio

from sapwood.core.artifacts import Report
from sapwood.core.provider import ProviderResult
from sapwood.core.substitution import substitute_text
from sapwood.core.workflow import WriteFileNode
from sapwood.errors import NotFound
from sapwood.runtime.journal import Journal
from sapwood.runtime.loading import find_report
from sapwood.runtime.world import Done, Work


async def write_file(node: WriteFileNode, work: Work, journal: Journal) -> Done:
    if node.source is None:
        return Done(ProviderResult(substitute_text(node.content or "", work.scope)))
    report = await asyncio.to_thread(_latest_report, node.source, work, journal)
    return Done(ProviderResult(report.text, report.content_type))


def _latest_report(source: str, work: Work, journal: Journal) -> Report:
    """Return the report of the node's latest attempt that has one."""
    keys = [one.report_key for one in work.history.attempts_here(source) if one.report_key is not None]
    with journal.world.store.artifacts.read() as reader:
        report = find_report(reader, keys[-1] if keys else None)
    if report is None:
        raise NotFound(f"a report of node {source}", "it has not ended with one; nothing is written")
    return report
