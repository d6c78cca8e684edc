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
    target, state = work.node.key, work.history.progress.state
    leads_here = set(selected_predecessors(work.plan.workflow, state, target)) if target in state.nodes else None
    return tuple(
        Visit(
            run_node_id=one.run_node_id,
            node_key=one.node,
            sequence_index=_sequence_index(work, one),
            attempt=one.number,
            status="running" if one.result is None else one.result.status,
            selected_targets=tuple(
                name for name in _targets(one) if name != target or leads_here is None or one.node in leads_here
            ),
            scope=one.request,
        )
        for tried in work.history.attempts.values()
        for one in tried
    )


def _targets(attempt: Attempt) -> list[str]:
    selection = attempt.selection
    return [] if selection is None else [one.target for one in selection.decisions if one.selected]


def _sequence_index(work: Work, attempt: Attempt) -> int:
    """Return the node's place in the file; nodes that are not in it go on counting."""
    workflow = work.plan.workflow
    if attempt.node in work.history.progress.state.nodes:
        return workflow.sequence_index(attempt.node)
    return len(workflow.nodes) + attempt.run_node_id
