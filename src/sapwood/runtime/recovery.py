"""Brings back what a killed process had handed to its spool and not yet committed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sapwood.errors import RunSealed
from sapwood.ports import ArtifactStore
from sapwood.runtime.spool import Call, leftovers, remove_unfinished

logger = logging.getLogger("sapwood.recovery")


class Recovered(NamedTuple):
    spools: int
    artifacts: int
    refused: int


def recover(store: ArtifactStore, folder: Path) -> Recovered:
    """Store what dead processes left in their spools, ignoring what is already there; then remove those files.

    A spool that holds something for a run that was sealed meanwhile is kept under another name.
    """
    remove_unfinished(folder)
    spools = artifacts = refused = 0
    for path, calls in leftovers(folder):
        added, lost = _replay(store, calls)
        if lost:
            path.rename(path.with_suffix(".refused"))
            logger.error("%d calls in %s came too late: their run is sealed", lost, path)
        else:
            path.unlink()
        spools, artifacts, refused = spools + 1, artifacts + added, refused + lost
    if artifacts:
        logger.warning("recovered %d artifacts from %d interrupted processes", artifacts, spools)
    return Recovered(spools, artifacts, refused)


def _replay(store: ArtifactStore, calls: Sequence[Call]) -> tuple[int, int]:
    """Return how many artifacts were added and how many calls were refused."""
    stored = store.stored(record.key for call in calls for record in call.records)
    with store.read() as reader:
        runs = {start.key for call in calls for start in call.starts if reader.find_run(start.key) is not None}
    missing = []
    for call in calls:
        records = [record for record in call.records if record.key not in stored]
        if records:
            missing.append(Call(records, [start for start in call.starts if start.key not in runs]))
    try:
        _append(store, missing)
    except RunSealed:
        return _replay_each(store, missing)
    return sum(len(call.records) for call in missing), 0


def _replay_each(store: ArtifactStore, calls: Sequence[Call]) -> tuple[int, int]:
    added = refused = 0
    for call in calls:
        try:
            _append(store, [call])
            added += len(call.records)
        except RunSealed as error:
            logger.error("not recovered: %s", error)
            refused += 1
    return added, refused


def _append(store: ArtifactStore, calls: Sequence[Call]) -> None:
    if calls:
        store.append(
            [record for call in calls for record in call.records],
            starts=[start for call in calls for start in call.starts],
        )
