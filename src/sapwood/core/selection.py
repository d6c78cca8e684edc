"""Whose reports a node gets: routing state -> selected direct predecessors.

The executor hands the state in; nothing here reads a store.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sapwood.core.keys import ArtifactKey

COMPLETED: Final = "completed"


@dataclass(frozen=True, slots=True)
class Visit:
    """One attempt of a node and how it ended; `attempt` counts loops and retries alike, from 1.

    `selected_targets` are the nodes that the edges chosen at its end lead to; empty while it runs, after a failure
    that is tried again, and at the end of a workflow. `scope` is the key of its AgentRequest, below which its
    artifacts stand.
    """

    run_node_id: int
    node_key: str
    sequence_index: int
    attempt: int
    status: str
    selected_targets: tuple[str, ...] = ()
    scope: ArtifactKey | None = None


def latest_visits(visits: Iterable[Visit]) -> dict[int, Visit]:
    """Return the last attempt of each run node."""
    latest: dict[int, Visit] = {}
    for visit in visits:
        best = latest.get(visit.run_node_id)
        if best is None or visit.attempt > best.attempt:
            latest[visit.run_node_id] = visit
    return latest


def select_predecessors(visits: Iterable[Visit], target_node_key: str, status: str = COMPLETED) -> tuple[Visit, ...]:
    """Return, for each run node that leads to the target now, its latest visit, by run_node_id.

    Only the latest visit counts: one that is running, failed or requeued gives nothing, though an earlier one
    completed; and one that chose another edge gives nothing, though an earlier one chose the target.
    """
    return tuple(
        visit
        for _, visit in sorted(latest_visits(visits).items())
        if visit.status == status and target_node_key in visit.selected_targets
    )
