"""A commit that has begun in its thread is waited for, whatever is cancelled meanwhile."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sapwood.runtime.shielded import shielded


@pytest.mark.parametrize("times", [1, 3])
def test_a_call_has_ended_also_when_every_task_of_its_loop_is_cancelled(times: int) -> None:
    has_begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def commit() -> None:
        has_begun.set()
        assert may_end.wait(20)
        ended.set()

    async def close_over_it() -> None:
        waiting = asyncio.ensure_future(shielded(commit))
        await asyncio.to_thread(has_begun.wait, 20)
        for _ in range(times):
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)
        assert not waiting.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert ended.is_set()

    asyncio.run(close_over_it())


def test_the_error_of_a_call_is_told_and_not_the_cancellation() -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def commit() -> None:
        has_begun.set()
        assert may_end.wait(20)
        raise OSError("disk full")

    async def close_over_it() -> None:
        waiting = asyncio.ensure_future(shielded(commit))
        await asyncio.to_thread(has_begun.wait, 20)
        waiting.cancel()
        may_end.set()
        with pytest.raises(OSError, match="disk full"):
            await waiting

    asyncio.run(close_over_it())
