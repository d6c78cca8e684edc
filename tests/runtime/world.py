"""A small world for the executor: a provider that answers from a function, templates that are their own text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from sapwood import ports
from sapwood.app import spool_folder
from sapwood.clock import KeyFactory, now_ms
from sapwood.core.canonical import canonical_json
from sapwood.core.codec import from_record
from sapwood.core.events import GraphEvent, NodeStreamDeltaEvent
from sapwood.core.hashing import hash_text
from sapwood.core.keys import ArtifactKey
from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.core.template import Templated, TemplateId, TemplateVersion
from sapwood.core.workflow import AgentNode, CommandNode, Edge, Node, Workflow
from sapwood.engine.boot import boot
from sapwood.ports import ArtifactStore, Rendered
from sapwood.runtime.executor import Executor
from sapwood.runtime.recorder import Recorder
from sapwood.runtime.recovery import recover
from sapwood.runtime.session import Store
from sapwood.runtime.spool import is_owner_alive
from sapwood.runtime.start import open_run
from sapwood.runtime.world import World
from sapwood.storage.sqlite import SqliteStore

Answer = Callable[[str, ProviderRunOptions], ProviderResult]


class Provider:
    """Answers with what `answer` gives; every call is a line of `calls`, which survives kill -9."""

    def __init__(self, answer: Answer, calls: Path | None = None, seconds: float = 0.0) -> None:
        self._answer = answer
        self._calls = calls
        self._seconds = seconds
        self.seen: list[tuple[str, ProviderRunOptions]] = []

    async def run(self, prompt: str, options: ProviderRunOptions) -> AsyncIterator[GraphEvent | ProviderResult]:
        self.seen.append((prompt, options))
        if self._calls is not None:
            with self._calls.open("a") as file:
                file.write(f"{prompt}\n")
        keys = KeyFactory()
        yield NodeStreamDeltaEvent(
            event_id=keys.segment(), node_id=prompt, timestamp="2026-01-01T00:00:00.000Z", delta_content="…"
        )
        await asyncio.sleep(self._seconds)
        yield self._answer(prompt, options)


class Templates:
    """Each id renders to its last segment, so that a prompt names its node."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._keys = KeyFactory()

    @property
    def renderer(self) -> tuple[str, str]:
        return "fake", "1"

    def register(self, template_id: str, text: str, variables: Iterable[str] = ()) -> TemplateVersion:
        known = self._store.find_version(TemplateId(template_id), hash_text(text))
        version = TemplateVersion(self._keys.root(), TemplateId(template_id), text, hash_text(text), (), now_ms())
        return known or self._store.add_version(version)

    def render(self, template: str | Templated, args: Mapping[str, object]) -> Rendered:
        text = str(template).rpartition(".")[2]
        version = self.register(str(template), text)
        return Rendered(version, canonical_json(dict(args)), text, *self.renderer)

    def current(self, template_id: str) -> TemplateVersion | None:
        return self.register(template_id, template_id.rpartition(".")[2])

    def rerender(self, text: str, args_json: bytes, variables: tuple[str, ...], template_id: str | None, /) -> str:
        return text


async def run_command(node: CommandNode, _folder: str) -> tuple[int, str]:
    """Pretend: the words are the exit code and the output."""
    return int(node.run[0]), " ".join(node.run[1:])


def open_world(path: Path) -> Store:
    """Open the store at `path` as `sapwood.open` does, with templates that are their own text."""
    artifacts = SqliteStore(path)
    folder = spool_folder(artifacts.location)
    recover(artifacts, folder)
    keys = KeyFactory()
    recorder = Recorder(artifacts, folder, keys.segment())
    alive = partial(is_owner_alive, folder)
    return Store(artifacts, recorder, Templates(artifacts), keys, now_ms, alive)


def make_executor(store: Store, provider: ports.Provider, **more: Any) -> Executor:
    return Executor(World(store, {"scripted": provider}, **{"run_command": run_command, **more}))


def begin(store: Store, flow: Workflow, **inputs: Any) -> str:
    """Record that a run begins; return its key."""
    return open_run(store, flow, inputs, {}).text


def finish(store: Store, folder: Path, run: str, provider: ports.Provider | None = None, **more: Any) -> str | None:
    """Take a run to its end; return its status."""
    with boot(folder / "engine.db", make_executor(store, provider or Provider(echo), **more)) as engine:
        engine.submit(run)
        return engine.wait(run, 30)


def finish_and_verify(store: Store, folder: Path, run: str, provider: ports.Provider, **more: Any) -> str | None:
    """Take a run to its end and verify its record; return its status."""
    status = finish(store, folder, run, provider, **more)
    assert store.verify(run).findings == ()
    return status


def run_to_end(store: Store, folder: Path, flow: Workflow, provider: Provider, **more: Any) -> tuple[str, str | None]:
    """Run `flow` from its start to its end and verify its record; return its key and its status."""
    run = begin(store, flow, **more.pop("inputs", {}))
    return run, finish_and_verify(store, folder, run, provider, **more)


def wait_for(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def all_of(store: Store, run: str, kind: type[Any]) -> list[Any]:
    with store.artifacts.read() as reader:
        return [from_record(record) for record in reader.load_kinds(ArtifactKey(run), [kind.__name__])]


def agent(key: str, **more: Any) -> AgentNode:
    return AgentNode(key=key, template=f"tpl.agent.{key}", **more)


def workflow(*nodes: Node, edges: list[Edge]) -> Workflow:
    return Workflow(name="story", nodes=nodes, edges=tuple(edges))


def chain(*names: str) -> Workflow:
    edges = [Edge(source=one, target=two) for one, two in pairwise(names)]
    return workflow(*(agent(name) for name in names), edges=edges)


def echo(prompt: str, options: ProviderRunOptions) -> ProviderResult:
    return ProviderResult(report=f"report of {prompt}")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
