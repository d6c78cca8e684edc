"""A run's history as the context assembly sees it: every attempt, how it ended, and where its edges led."""

from __future__ import annotations

from sapwood.core.schedule import selected_predecessors
from sapwood.core.selection import Visit
from sapwood.runtime.history import Attempt
from sapwood.runtime.world import Work


def visits_of(work: Work) -> tuple[Visit, ...]:
    """Return all attempts of the run.

    One that led to this node, and whose edge has been decided otherwise since (its node was opened again by a loop and
    then skipped), no longer leads here.
    """
    target, level = work.node.key, work.level
    leads_here = set(selected_predecessors(level.workflow, level.progress.state, target))
    return tuple(
        Visit(
            run_node_id=one.run_node_id,
            node_key=one.node,
            sequence_index=_sequence_index(work, one),
            attempt=one.number,
            status="running" if one.result is None else one.result.status,
            selected_targets=tuple(name for name in _targets(one) if name != target or one.node in leads_here),
            scope=one.request,
        )
        for tried in work.history.attempts.values()
        for one in tried
    )


def _targets(attempt: Attempt) -> list[str]:
    selection = attempt.selection
    return [] if selection is None else [one.target for one in selection.decisions if one.selected]


def _sequence_index(work: Work, attempt: Attempt) -> int:
    """Return the node's place; nodes of a graph that has ended go on counting."""
    if attempt.node in work.history.homes:
        return work.history.level_of(attempt.node).frame.sequence_index(attempt.node)
    return len(work.plan.workflow.nodes) + attempt.run_node_id
