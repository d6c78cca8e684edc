"""The one way from async code into a commit: in a thread, and never left before its outcome is known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from sapwood.outlast import outlast

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


async def shielded(call: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """Run `call` in a thread. A cancellation waits for it: its error is raised, else the cancellation goes on."""
    in_context = partial(copy_context().run, call, *args, **kwargs)
    work = asyncio.get_running_loop().run_in_executor(None, in_context)  # no task: whoever closes a loop cancels tasks
    try:
        await outlast(work)
    finally:
        result = work.result()
    return result
