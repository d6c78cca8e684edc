"""Waiting for an end that has to come: who is cancelled meanwhile, however often, waits too."""

from __future__ import annotations

import asyncio
from typing import Any


async def outlast(work: asyncio.Future[Any]) -> None:
    """Return when `work` is done, however it ended; raise CancelledError then when this call was cancelled before."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
