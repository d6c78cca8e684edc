"""The discovery reports of a run: what planning may link to."""

from __future__ import annotations

from sapwood.core.codec import from_record
from sapwood.core.keys import ArtifactKey
from sapwood.core.plans import DiscoveryReport
from sapwood.core.produced import describe_discovery
from sapwood.core.prompt import Contribution
from sapwood.core.workflow import AgentNode
from sapwood.runtime.journal import Journal
from sapwood.runtime.world import Work

CONTRIBUTOR = "discovery_report"


def load_discoveries(work: Work, journal: Journal) -> dict[ArtifactKey, DiscoveryReport]:
    """Return the run's reports by key, in the order in which they were made."""
    with journal.world.store.artifacts.read() as reader:
        found = [from_record(record) for record in reader.load_kinds(work.plan.run, [DiscoveryReport.__name__])]
    reports = [one for one in found if isinstance(one, DiscoveryReport)]
    return {one.key: one for one in sorted(reports, key=lambda one: one.key.last_segment)}


def discovery_contributions(node: AgentNode, work: Work, journal: Journal) -> list[Contribution]:
    """Return what a planning node has to know to link its tickets: the entries of the latest report."""
    if node.produces != "planning_tickets":
        return []
    reports = list(load_discoveries(work, journal).values())
    return [Contribution(CONTRIBUTOR, describe_discovery(reports[-1]), 1)] if reports else []
