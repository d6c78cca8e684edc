"""DiscoveryReport and PlanningTicket: what was found, and the work that follows from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import UNSET, UnsetType

from sapwood.core.expect import expect
from sapwood.core.findings import Finding
from sapwood.core.graph import forward_order
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.typed import Text, Typed


class Entry(Typed, frozen=True):
    """Something a discovery found, with an id to link to."""

    id: str


class FileReference(Entry, frozen=True):
    """A place in the code: `lines` is a range like `10-25`."""

    path: str
    lines: str | None
    why: str


class CrossLink(Entry, frozen=True):
    """Two entries that belong together."""

    source: str
    target: str
    why: Text = UNSET


class GeneratedQuery(Entry, frozen=True):
    text: str


class Diagram(Entry, frozen=True):
    """A drawing as text in some language, for example mermaid."""

    language: str
    text: str


class DiscoveryReport(Artifact, frozen=True):
    """What a discovery found; every entry has an id of its own, to link to."""

    file_references: tuple[FileReference, ...]
    cross_links: tuple[CrossLink, ...]
    semantic_tags: tuple[str, ...]
    generated_queries: tuple[GeneratedQuery, ...]
    diagrams: tuple[Diagram, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (*self.file_references, *self.cross_links, *self.generated_queries, *self.diagrams)


class DiscoveryLink(Typed, frozen=True):
    """A link to one entry of a DiscoveryReport."""

    report: ArtifactKey
    entry: str


class Task(Typed, frozen=True):
    id: str
    title: str
    description: str
    dependencies: tuple[str, ...]
    acceptance_criteria: tuple[str, ...]
    discovery_links: tuple[DiscoveryLink, ...]


class PlanningTicket(Artifact, frozen=True):
    """A breakdown of work into tasks."""

    tasks: tuple[Task, ...]
    title: Text = UNSET
    goal: str | UnsetType | None = UNSET


def check_plan(artifact: object) -> list[Finding]:
    """Return what is wrong with a DiscoveryReport or a PlanningTicket in itself; other kinds are not looked at."""
    match artifact:
        case DiscoveryReport():
            return list(_repeated_entries(artifact))
        case PlanningTicket():
            return [*_wrong_tasks(artifact), *_circles(artifact)]
    return []


def check_ticket(ticket: PlanningTicket, reports: Mapping[ArtifactKey, DiscoveryReport]) -> list[Finding]:
    """Return what is wrong with a ticket: tasks with the same id, unknown or circular dependencies, dead links."""
    expect(ticket, PlanningTicket, "ticket", "a PlanningTicket")
    expect(reports, Mapping, "reports", "the DiscoveryReports by their keys")
    return [*check_plan(ticket), *_dead_links(ticket, reports)]


def check_plans(artifacts: Iterable[object]) -> list[Finding]:
    """Return what is wrong with the reports and tickets among all artifacts of a run."""
    plans = [artifact for artifact in artifacts if isinstance(artifact, DiscoveryReport | PlanningTicket)]
    reports = {plan.key: plan for plan in plans if isinstance(plan, DiscoveryReport)}
    found = (check_ticket(plan, reports) if isinstance(plan, PlanningTicket) else check_plan(plan) for plan in plans)
    return [finding for findings in found for finding in findings]


def _repeated(ids: Iterable[str]) -> list[str]:
    return sorted(name for name, count in Counter(ids).items() if count > 1)


def _repeated_entries(report: DiscoveryReport) -> Iterator[Finding]:
    for name in _repeated(entry.id for entry in report.entries):
        yield Finding("duplicate_entry", report.key, f"two entries have the id {name!r}")


def _wrong_tasks(ticket: PlanningTicket) -> Iterator[Finding]:
    ids = {task.id for task in ticket.tasks}
    for name in _repeated(task.id for task in ticket.tasks):
        yield Finding("duplicate_task", ticket.key, f"two tasks have the id {name!r}")
    for task in ticket.tasks:
        for name in task.dependencies:
            if name not in ids:
                yield Finding(
                    "unknown_dependency", ticket.key, f"task {task.id!r} depends on {name!r}, which is no task"
                )


def _circles(ticket: PlanningTicket) -> Iterator[Finding]:
    ids = dict.fromkeys(task.id for task in ticket.tasks)
    arrows = [(need, task.id) for task in ticket.tasks for need in ids.keys() & set(task.dependencies)]
    waiting = ids.keys() - set(forward_order(ids, arrows))
    if waiting:
        names = ", ".join(sorted(waiting))
        yield Finding("dependency_cycle", ticket.key, f"these tasks wait for each other or for a circle: {names}")


def _dead_links(ticket: PlanningTicket, reports: Mapping[ArtifactKey, DiscoveryReport]) -> Iterator[Finding]:
    entries = {key: {entry.id for entry in report.entries} for key, report in reports.items()}
    for task in ticket.tasks:
        for link in task.discovery_links:
            if link.report not in entries:
                yield Finding(
                    "unknown_report", ticket.key, f"task {task.id!r} links to {link.report}, no DiscoveryReport"
                )
            elif link.entry not in entries[link.report]:
                yield Finding(
                    "unknown_entry", ticket.key, f"task {task.id!r} links to {link.entry!r}, not in {link.report}"
                )
