"""One program of a command node: words, never shell text, in its own process group, ended with all it started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from sapwood.core.workflow import CommandNode
from sapwood.errors import ProviderFailed
from sapwood.providers.groups import end_group, start_group

MAX_OUTPUT_BYTES: Final = 8 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024


async def run_program(node: CommandNode, folder: str) -> tuple[int, str]:
    """Return its exit code and all it printed; raise ProviderFailed when it cannot be started or prints too much."""
    name = node.run[0]
    where = Path(folder, node.cwd).resolve()
    if not where.is_relative_to(Path(folder).resolve()):
        raise ProviderFailed(name, f"cwd {node.cwd!r} is outside the project", retryable=False)
    process = await start_group(name, node.run, str(where), {**os.environ, **node.env}, is_one_stream=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    output = bytearray()
    try:
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            output += chunk
            if len(output) > MAX_OUTPUT_BYTES:
                raise ProviderFailed(name, f"more than {MAX_OUTPUT_BYTES} bytes of output", retryable=False)
        return await process.wait(), output.decode(errors="replace")
    finally:
        await end_group(process)
