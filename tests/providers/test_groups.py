"""Programs in process groups of their own."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

from sapwood.providers.groups import end_group, start_group

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
)


def test_a_program_that_ignores_politeness_is_ended_also_when_nobody_waits_for_its_end_any_more() -> None:
    async def stop_in_between() -> int:
        process = await start_group("it", [sys.executable, "-c", STUBBORN], ".", os.environ)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        ending = asyncio.ensure_future(end_group(process))
        await asyncio.sleep(0.05)
        ending.cancel()
        with suppress(asyncio.CancelledError):
            await ending
        try:
            async with asyncio.timeout(1):
                return await process.wait()
        finally:
            await end_group(process)

    assert asyncio.run(stop_in_between()) == -9
