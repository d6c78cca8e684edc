"""Whether a run is paused: people said so more often than they said to go on."""

from __future__ import annotations

from collections.abc import Iterable

from sapwood.ports import Claim
from sapwood.runtime.roles import OF_RUN, PAUSE, RESUME


def is_paused(claims: Iterable[Claim]) -> bool:
    """Tell whether the run starts nothing more until it is resumed."""
    roles = [claim.role for claim in claims if claim.node == OF_RUN]
    return roles.count(PAUSE) > roles.count(RESUME)
