"""What every provider's stream goes through: the protocol is enforced, and small deltas are merged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import fields, replace
from typing import Any, cast

import msgspec

from sapwood.clock import now_ms
from sapwood.core.deltas import Delta, DeltaMerger
from sapwood.core.events import GraphEvent, NodeStreamDeltaEvent, NodeThoughtDeltaEvent
from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.core.provider_lines import LineError, Stamp, read_line, read_result
from sapwood.errors import ProviderBrokeProtocol, ProviderFailed
from sapwood.outlast import outlast
from sapwood.ports import Clock, Provider
from sapwood.providers.stamps import real_stamps

Item = GraphEvent | ProviderResult
_DELTAS: dict[str, type[GraphEvent]] = {"delta": NodeStreamDeltaEvent, "thought": NodeThoughtDeltaEvent}


class Steady:
    """A provider as the runtime gets it: it keeps the protocol, and sends few, larger deltas.

    It works in `folder` unless its options name another one.
    """

    def __init__(self, name: str, provider: Provider, folder: str = ".", clock: Clock = now_ms) -> None:
        self._name = name
        self._provider = provider
        self._folder = folder
        self._clock = clock

    async def run(self, prompt: str, options: ProviderRunOptions) -> AsyncIterator[Item]:
        placed = options if options.folder != "." else replace(options, folder=self._folder)
        stream = checked(self._name, self._provider, prompt, placed)
        async with aclosing(stream), aclosing(merged(stream, self._clock)) as out:
            async for item in out:
                yield item


async def checked(
    name: str, provider: Provider, prompt: str, options: ProviderRunOptions
) -> AsyncGenerator[Item, None]:
    """Yield the provider's events and, once its stream has ended, its one result.

    An event or the result may be sent as plain data, in the forms of `provider_lines`. Raises ProviderBrokeProtocol for
    a stream without a result, with two, or with anything after it, and for what cannot be recorded; the result of such
    a stream is never handed out.
    """
    result: ProviderResult | None = None
    stamps = real_stamps()
    async with _closing(provider.run(prompt, options)) as stream:
        async for sent in stream:
            item = _understood(name, sent, stamps(options.node))
            if result is not None:
                what = "a second result" if isinstance(item, ProviderResult) else "an event after its result"
                raise ProviderBrokeProtocol(name, f"it sent {what}")
            if isinstance(item, ProviderResult):
                result = item
            else:
                yield item
    if result is None:
        raise ProviderBrokeProtocol(name, "it ended without a result")
    yield result


def _understood(name: str, sent: object, stamp: Stamp) -> Item:
    """Return what was sent, as a value that can be recorded."""
    try:
        if isinstance(sent, Mapping):
            item = read_line(sent, stamp)
            if isinstance(item, LineError):
                raise ProviderFailed(name, item.message, retryable=item.retryable)
            return item
        if isinstance(sent, ProviderResult):
            return read_result({field.name: getattr(sent, field.name) for field in fields(sent)})
    except ValueError as error:
        raise ProviderBrokeProtocol(name, str(error)) from None
    if isinstance(sent, GraphEvent):
        return sent
    raise ProviderBrokeProtocol(name, f"it sent {type(sent).__name__}, neither an event nor a result")


def _closing(stream: Any) -> AbstractAsyncContextManager[Any]:
    """Close the stream at the end, if it is one that can be closed."""
    return aclosing(stream) if hasattr(stream, "aclose") else nullcontext(stream)


async def merged(stream: AsyncIterator[Item], clock: Clock) -> AsyncGenerator[Item, None]:
    """Yield the stream with its deltas merged to one per 250 ms or 4 KB; a slow stream is not held back longer."""
    merger = DeltaMerger()
    first: dict[str, GraphEvent] = {}  # a merged piece has the identity and time of the first that went into it
    pending: asyncio.Future[Item] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(anext(cast(Any, stream)))
            wait_s = None if merger.due_ms is None else max(0.0, (merger.due_ms - clock()) / 1000)
            done, _ = await asyncio.wait({pending}, timeout=wait_s)
            item = _taken(pending) if done else None
            kind = next((name for name, event in _DELTAS.items() if isinstance(item, event)), None)
            if isinstance(item, GraphEvent) and kind is not None:
                first.setdefault(kind, item)
                out = merger.add(Delta(kind, getattr(item, "delta_content", None) or ""), clock())
            else:
                out = merger.flush()
            for piece in out:
                yield msgspec.structs.replace(first.pop(piece.kind), delta_content=piece.text)
            if done:
                pending = None
                if item is None:
                    return
                if kind is None:
                    yield item
    finally:
        if pending is not None:
            pending.cancel()
            await outlast(pending)  # a stream that is still ending cannot be closed


def _taken(pending: asyncio.Future[Item]) -> Item | None:
    """Return the next item, or None at the end of the stream."""
    try:
        return pending.result()
    except StopAsyncIteration:
        return None
