"""The reports that the selected predecessors of a node hand on."""

from __future__ import annotations

from sapwood.core.artifacts import Report
from sapwood.core.codec import from_record
from sapwood.core.handoff import UpstreamArtifact
from sapwood.core.schedule import selected_predecessors
from sapwood.runtime.context import to_upstream
from sapwood.runtime.journal import Journal
from sapwood.runtime.world import Work


def upstream(work: Work, journal: Journal) -> list[UpstreamArtifact]:
    """Return them in the order of the file, all read at one moment."""
    workflow, state = work.plan.workflow, work.history.progress.state
    found = []
    with journal.world.store.artifacts.read() as reader:
        for source in selected_predecessors(workflow, state, work.node.key):
            latest = work.history.attempts[source][-1]
            record = None if latest.report_key is None else reader.find(latest.report_key)
            report = None if record is None else from_record(record)
            if isinstance(report, Report):
                found.append(to_upstream(report, workflow.sequence_index(source)))
    return found
