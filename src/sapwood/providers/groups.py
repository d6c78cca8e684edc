"""Programs in process groups of their own: started from words, ended together with everything they started."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from sapwood.errors import ProviderFailed, plain_words
from sapwood.outlast import outlast

MAX_ARGUMENT_BYTES: Final = 128 * 1024 - 1
GRACE_S: Final = 2.0


async def start_group(
    name: str, words: Sequence[str], folder: str, environment: Mapping[str, str], *, is_one_stream: bool = False
) -> asyncio.subprocess.Process:
    """Start a program; with `is_one_stream` its errors come with its output. Raises ProviderFailed."""
    if any("\0" in word or len(word.encode()) > MAX_ARGUMENT_BYTES for word in words):
        why = f"a word of the command has a zero byte or more than {MAX_ARGUMENT_BYTES} bytes; use prompt: stdin"
        raise ProviderFailed(name, why, retryable=False)
    try:
        return await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT if is_one_stream else asyncio.subprocess.PIPE,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ProviderFailed(name, f"{words[0]} cannot be started: {plain_words(error)}", retryable=False) from None


async def end_group(process: asyncio.subprocess.Process) -> None:
    """End the program and all it started, first politely, and close its pipes; who is cancelled meanwhile waits too."""
    ending = asyncio.ensure_future(_end(process))
    try:
        await outlast(ending)
    finally:
        ending.result()


async def _end(process: asyncio.subprocess.Process) -> None:
    signal_group(process.pid, signal.SIGTERM)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await process.wait()
    finally:  # an engine that stops cancels every task, this one too
        signal_group(process.pid, signal.SIGKILL)
    await process.wait()
    process._transport.close()  # type: ignore[attr-defined]  # pipes that were not read to their end stay open


def signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
