"""The structured result of a node with a phase -> the PhaseHandoff that it ends with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sapwood.core.keys import ArtifactKey
from sapwood.core.lengths import shorten
from sapwood.core.phases import HANDOFF_FIELDS, PhaseHandoff

NARRATIVE_CHARS: Final = 2000


def phase_handoff(
    run: ArtifactKey,
    phase: int,
    data: Mapping[str, Any],
    report: str,
    *,
    goal: str = "",
    verdicts: Mapping[str, str] | None = None,
    written: Iterable[str] = (),
) -> PhaseHandoff:
    """Return what a phase hands on: the fields of its structured result, in `data.handoff` or in `data` itself.

    `verdicts` are those known before, its own win. `written` completes what it says it produced. Without a narrative
    the beginning of its report is one. Raises InvalidPhase for a field that is not what it must be.
    """
    own = data.get("handoff")
    source = own if isinstance(own, Mapping) else data
    given: dict[str, Any] = {name: source[name] for name in HANDOFF_FIELDS if source.get(name) is not None}
    judged, produced = given.get("verdicts", {}), given.get("artifacts_produced", ())
    if isinstance(judged, Mapping):
        given["verdicts"] = {**(verdicts or {}), **judged}
    if isinstance(produced, list | tuple):
        given["artifacts_produced"] = list(dict.fromkeys([*map(_hashable, produced), *written]))
    given.setdefault("goal", goal)
    given.setdefault("narrative", shorten(report, NARRATIVE_CHARS))
    return PhaseHandoff(run.text, phase, **given)


def _hashable(item: Any) -> Any:
    return item if isinstance(item, str) else str(item)
