"""What has been judged in a run so far: the verdicts of its phases, and the answers at its gates."""

from __future__ import annotations

from collections.abc import Iterable

from sapwood.core.artifacts import PhaseHandoff
from sapwood.core.selection import COMPLETED
from sapwood.core.workflow import GateNode
from sapwood.runtime.world import Work


def known_verdicts(work: Work, handoffs: Iterable[PhaseHandoff]) -> dict[str, str]:
    """Return the verdicts by gate; `handoffs` come in the order in which they were made, and later ones win."""
    known: dict[str, str] = {}
    for handoff in handoffs:
        known |= handoff.verdicts if isinstance(handoff.verdicts, dict) else {}
    nodes = [node for level in work.history.levels.values() for node in level.workflow.nodes]
    for gate in (node.key for node in nodes if isinstance(node, GateNode)):
        result = work.history.attempts[gate][-1].result if gate in work.history.attempts else None
        if result is not None and result.status == COMPLETED and isinstance(result.decision, str):
            known[gate] = result.decision
    return known
