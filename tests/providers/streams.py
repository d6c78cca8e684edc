"""Small helpers to play a provider's stream."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

from sapwood.core.events import GraphEvent
from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.ports import Provider
from sapwood.providers.stream import Steady

Item = GraphEvent | ProviderResult


class Says:
    """Sends what it was given, whatever that is, each after `pause_s`."""

    def __init__(self, *items: Any, pause_s: float = 0.0) -> None:
        self._items = items
        self._pause_s = pause_s

    async def run(self, prompt: str, options: ProviderRunOptions) -> AsyncIterator[Item]:
        for item in self._items:
            await asyncio.sleep(self._pause_s)
            yield item


async def collect(provider: Provider, prompt: str, options: ProviderRunOptions) -> list[Item]:
    return [item async for item in provider.run(prompt, options)]


def play(provider: Provider, prompt: str = "go", options: ProviderRunOptions | None = None) -> list[Item]:
    """Return all that comes, the way the runtime gets it."""
    return asyncio.run(collect(Steady("it", provider), prompt, options or ProviderRunOptions(node="draft")))


def python(program: str, **settings: Any) -> ProviderRunOptions:
    """Options of the command provider that run a small Python program."""
    return ProviderRunOptions(settings={"command": [sys.executable, "-c", program], **settings}, node="draft")


def texts(items: list[Item]) -> list[str]:
    return [str(getattr(item, "delta_content", "")) for item in items if isinstance(item, GraphEvent)]
