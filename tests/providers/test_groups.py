"""Programs in process groups of their own."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sapwood.providers import groups
from sapwood.providers.groups import end_group, start_group

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
)


async def stop_twice(cancel: Callable[[asyncio.Future[None]], object]) -> tuple[bool, int]:
    """End a program that ignores politeness, and cancel that; tell whether it had ended then, and how it ended."""
    process = await start_group("it", [sys.executable, "-c", STUBBORN], ".", os.environ)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    ending = asyncio.ensure_future(end_group(process))
    await asyncio.sleep(0.05)
    cancel(ending)
    with suppress(asyncio.CancelledError):
        await ending
    has_ended = process.returncode is not None
    try:
        async with asyncio.timeout(1):
            return has_ended, await process.wait()
    finally:
        await end_group(process)


def test_who_is_cancelled_while_a_program_is_ended_waits_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "GRACE_S", 0.3)
    assert asyncio.run(stop_twice(lambda ending: ending.cancel())) == (True, -9)


def test_an_engine_that_stops_ends_at_once_even_what_ignores_politeness() -> None:
    def cancel_all(_ending: object) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    assert asyncio.run(stop_twice(cancel_all))[1] == -9


@pytest.mark.parametrize("turns", [1, 2, 3, 5])
def test_who_is_cancelled_while_a_program_starts_ends_with_it(tmp_path: Path, turns: int) -> None:
    alive = tmp_path / "alive"
    words = [sys.executable, "-c", f"import time; time.sleep(0.5); open({str(alive)!r}, 'w')"]

    async def cancel_early() -> None:
        starting = asyncio.ensure_future(start_group("it", words, ".", os.environ))
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        async with asyncio.timeout(20):
            with suppress(asyncio.CancelledError):
                await end_group(await starting)

    asyncio.run(cancel_early())
    time.sleep(0.7)
    assert not alive.exists()
