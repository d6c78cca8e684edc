"""Any command-line agent as a provider: the prompt goes in, text or lines of JSON come out.

`options` of the node: `command` (a list of words), `prompt` (`stdin` or `argument`), `output` (`text` or `jsonl`),
`timeout_s`, `max_output_bytes`, `env`; `model` is what prices and the record call it. The program gets the system
prompt in SAPWOOD_SYSTEM_PROMPT and its own process group, all of which is ended when the time is up, the output too
large, or the call cancelled.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from sapwood.core.events import GraphEvent
from sapwood.core.mistakes import Problem, unknown_name
from sapwood.core.prompt import ProviderRunOptions, render_provider_text
from sapwood.core.provider import ProviderResult
from sapwood.core.provider_lines import LineError, read_line
from sapwood.errors import ProviderFailed
from sapwood.providers.groups import end_group, start_group
from sapwood.providers.scripted import OPTIONS
from sapwood.providers.stamps import Stamps, real_stamps

NAME: Final = "command"
_KEPT_ERRORS_BYTES = 4096
_CHUNK_BYTES = 64 * 1024
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """The settings of one call, checked."""

    command: tuple[str, ...]
    prompt: str = "stdin"
    output: str = "text"
    timeout_s: float = 600.0
    max_output_bytes: int = 8 * 1024 * 1024
    env: Mapping[str, str] = field(default_factory=dict)
    model: str = ""

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> CommandOptions:
        """Read the node's options; raise ProviderFailed (another try would not help) that names the wrong one."""
        for problem in cls.problems(settings):
            raise ProviderFailed(NAME, "; ".join(filter(None, (problem.what, problem.allowed))), retryable=False)
        own = {name: value for name, value in settings.items() if name not in OPTIONS}
        return cls(**{**own, "command": tuple(settings["command"])})

    @classmethod
    def problems(cls, settings: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield what is wrong with them. Those of `scripted`, which a file may carry to be tried with, are not."""
        for name in settings:
            if name not in cls.__dataclass_fields__ and name not in OPTIONS:
                yield Problem((name,), *unknown_name("option", name, cls.__dataclass_fields__), at_key=True)
        for name, is_right, expected in _RULES:
            if (name in settings or name == "command") and not is_right(settings.get(name)):
                yield Problem((name,), f"option {name}: expected {expected}")


def _is_words(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(word, str) for word in value)


def _is_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


_RULES: Final = (
    ("command", _is_words, "a list of words, the program first"),
    ("prompt", lambda value: value in ("stdin", "argument"), "stdin or argument"),
    ("output", lambda value: value in ("text", "jsonl"), "text or jsonl"),
    ("timeout_s", _is_positive, "a number of seconds"),
    ("max_output_bytes", lambda value: _is_positive(value) and isinstance(value, int), "a whole number"),
    ("env", _is_texts, "names and texts"),
    ("model", lambda value: isinstance(value, str), "a name"),
)


class CommandProvider:
    """Runs a program for each prompt."""

    def __init__(self, stamps: Stamps | None = None) -> None:
        self._stamps = stamps or real_stamps()

    async def run(self, prompt: str, options: ProviderRunOptions) -> AsyncIterator[GraphEvent | ProviderResult]:
        settings = CommandOptions.read(options.settings)
        text = render_provider_text(prompt, options.context)
        words = [*settings.command, text] if settings.prompt == "argument" else settings.command
        environment = {**os.environ, "SAPWOOD_SYSTEM_PROMPT": options.system_prompt, **settings.env}
        process = await start_group(NAME, words, options.folder, environment)
        feeding = asyncio.ensure_future(_feed(process, text if settings.prompt == "stdin" else ""))
        errors = asyncio.ensure_future(_last_errors(process))
        deadline = asyncio.get_running_loop().time() + settings.timeout_s
        try:
            async with aclosing(self._answer(process, settings, options.node, deadline)) as answer:
                async for item in answer:
                    yield item
            code = await _before(deadline, process.wait())
            if code != 0:
                said = (await _before(deadline, errors)).strip().splitlines()
                raise ProviderFailed(NAME, f"exit code {code}" + (f": {said[-1][:300]}" if said else ""))
        except TimeoutError:
            raise ProviderFailed(NAME, f"no answer within {settings.timeout_s:g} s") from None
        finally:
            for task in (feeding, errors):
                task.cancel()
            try:
                await end_group(process)  # before anything that one more cancellation could cut short
            finally:
                await asyncio.gather(feeding, errors, return_exceptions=True)

    async def _answer(
        self, process: asyncio.subprocess.Process, settings: CommandOptions, node: str, deadline: float
    ) -> AsyncGenerator[GraphEvent | ProviderResult, None]:
        text = _text_of(process, settings.max_output_bytes, deadline)
        if settings.output == "jsonl":
            async for line in _lines(text):
                yield self._read(line, node)
            return
        pieces = []
        async for piece in text:
            pieces.append(piece)
            yield self._read(json.dumps({"type": "delta", "text": piece}), node)
        if await _before(deadline, process.wait()) == 0:
            yield ProviderResult("".join(pieces))

    def _read(self, line: str, node: str) -> GraphEvent | ProviderResult:
        try:
            item = read_line(json.loads(line), self._stamps(node))
        except (ValueError, RecursionError) as error:
            raise ProviderFailed(NAME, f"a line of its output cannot be used: {error}") from None
        if isinstance(item, LineError):
            raise ProviderFailed(NAME, item.message, retryable=item.retryable)
        return item


async def _feed(process: asyncio.subprocess.Process, text: str) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # a program need not read what it is given
        process.stdin.write(text.encode())
        await process.stdin.drain()
    process.stdin.close()


async def _last_errors(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    kept = b""
    while chunk := await process.stderr.read(_CHUNK_BYTES):
        kept = (kept + chunk)[-_KEPT_ERRORS_BYTES:]
    return kept.decode(errors="replace")


async def _before(deadline: float, work: Awaitable[T]) -> T:
    """Await `work`; raise TimeoutError when it is not there at the deadline.

    A `timeout` block round the whole stream would not do: its reader may take each item in a task of its own.
    """
    async with asyncio.timeout_at(deadline):
        return await work


async def _text_of(process: asyncio.subprocess.Process, limit_bytes: int, deadline: float) -> AsyncIterator[str]:
    """Yield the program's output as it comes; raise ProviderFailed when it is too much or no UTF-8."""
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")()
    size_bytes = 0
    try:
        while chunk := await _before(deadline, process.stdout.read(_CHUNK_BYTES)):
            size_bytes += len(chunk)
            if size_bytes > limit_bytes:
                raise ProviderFailed(NAME, f"more than {limit_bytes} bytes of output")
            if text := decoder.decode(chunk):
                yield text
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise ProviderFailed(NAME, "its output is not UTF-8") from None


async def _lines(pieces: AsyncIterator[str]) -> AsyncIterator[str]:
    rest: list[str] = []
    async for piece in pieces:
        *whole, last = piece.split("\n")
        for line in whole:
            full = "".join([*rest, line])
            rest = []
            if full.strip():
                yield full
        rest.append(last)
    if (full := "".join(rest)).strip():
        yield full
