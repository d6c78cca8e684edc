"""What people have said to a run, asked of the store at most ten times a second, however many calls want to know."""

from __future__ import annotations

import asyncio
import time
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from sapwood.core.keys import ArtifactKey
from sapwood.ports import ArtifactStore, Reader
from sapwood.runtime.roles import CANCEL, OF_RUN, PAUSE, RESUME

POLLING_S: Final = 0.1


class Said(NamedTuple):
    """Whether the run is cancelled or paused; `pauses` are those that have been lifted again."""

    is_cancelled: bool = False
    is_paused: bool = False
    pauses: int = 0
    asked_at_s: float = -POLLING_S


class Watch:
    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._said: dict[ArtifactKey, Said] = {}
        # A lock belongs to the event loop it was first used in, and an executor may outlive an engine with its loop.
        self._asking: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[ArtifactKey, asyncio.Lock]] = (
            WeakKeyDictionary()
        )

    async def said(self, run: ArtifactKey) -> Said:
        """Return what people have said, as it was at most `POLLING_S` ago."""
        locks = self._asking.setdefault(asyncio.get_running_loop(), {})
        async with locks.setdefault(run, asyncio.Lock()):
            known = self._said.get(run, Said())
            if time.monotonic() - known.asked_at_s >= POLLING_S:
                known = self._said[run] = await asyncio.to_thread(self._ask, run, known.pauses)
            return known

    def _ask(self, run: ArtifactKey, pauses: int) -> Said:
        with self._store.read() as reader:
            while _is_there(reader, run, PAUSE, pauses) and _is_there(reader, run, RESUME, pauses):
                pauses += 1
            is_paused = _is_there(reader, run, PAUSE, pauses)
            return Said(_is_there(reader, run, CANCEL, 0), is_paused, pauses, time.monotonic())


def _is_there(reader: Reader, run: ArtifactKey, role: str, number: int) -> bool:
    return reader.find_claim(run, OF_RUN, number, 0, role) is not None
