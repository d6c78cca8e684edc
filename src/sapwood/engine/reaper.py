"""What dead processes left behind: their runs are found in the database, asked afresh each time, and taken over.

Remembering "who died last" is not enough: that one may have died before it took over from the one before it. So every
question goes to the rows themselves, and whether an owner is dead is told by its lock.

A run is taken over by removing its rows and starting it again in the process that asked: every step finds in the store
what has been recorded already. dbos would put it on a queue that any process may serve, also one about to end.
"""

from __future__ import annotations

from pathlib import Path

from dbos import DBOS

from sapwood.engine.slots import forget, hold_if_dead
from sapwood.engine.workflows import GRAPH

OPEN = ["PENDING", "ENQUEUED", "DELAYED"]


class Reaper:
    def __init__(self, folder: Path, own_slot: str) -> None:
        self._folder = folder
        self._own_slot = own_slot

    def abandoned(self) -> list[str]:
        """Return the runs whose owner has died, oldest first."""
        open_runs = DBOS.list_workflows(name=GRAPH, status=OPEN, load_input=False, load_output=False)
        return [run.workflow_id for run in open_runs if self._is_dead(run.executor_id)]

    def clear(self, run: str) -> str | None:
        """Remove what the engine knows about `run`; return its owner instead if that one lives and is at it."""
        found = DBOS.list_workflows(workflow_ids=[run], load_input=False, load_output=False)
        if not found:
            return None
        owner = found[0].executor_id
        if found[0].status not in OPEN or owner is None or owner == self._own_slot:
            self._delete(run)
            return None
        with hold_if_dead(self._folder, owner) as is_dead:
            if not is_dead:
                return owner
            self._delete(run)
        if not DBOS.list_workflows(executor_id=owner, status=OPEN, limit=1, load_input=False, load_output=False):
            forget(self._folder, owner)
        return None

    def _is_dead(self, owner: str | None) -> bool:
        if owner is None or owner == self._own_slot:
            return owner is None
        with hold_if_dead(self._folder, owner) as is_dead:
            return is_dead

    def _delete(self, run: str) -> None:
        below = DBOS.list_workflows(workflow_id_prefix=run + ".", load_input=False, load_output=False)
        DBOS.delete_workflows([run, *(child.workflow_id for child in below)])
