"""Runs of workflows: engine, executor, store, templates and providers as one thing with few verbs."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sapwood.app import MEMORY, load_templates, open_store
from sapwood.app.project import existing_project, open_project_store
from sapwood.core.expect import expect
from sapwood.core.ingest_settings import IngestSettings
from sapwood.core.inputs import resolve_inputs
from sapwood.core.keys import ArtifactKey
from sapwood.core.limits import read_prices
from sapwood.core.mistakes import unknown_name
from sapwood.core.workflow import Workflow, with_source
from sapwood.core.workflow_build import Usual
from sapwood.core.workflow_check import Known
from sapwood.errors import EngineFailed, InvalidSettings, NotFound, RunBusy, RunSealed, SapwoodError
from sapwood.ingest.documents import ProjectDocuments
from sapwood.ports import Engine, Provider, RunRow
from sapwood.providers.discovery import check_options, find_provider, provider_names
from sapwood.providers.program import run_program
from sapwood.providers.stream import Steady
from sapwood.runtime.control import Control
from sapwood.runtime.executor import Executor
from sapwood.runtime.run_config import RunPolicies, run_config
from sapwood.runtime.session import Store
from sapwood.runtime.start import open_run
from sapwood.runtime.world import World
from sapwood.settings import Settings
from sapwood.templates.files import Loaded
from sapwood.workflows.load import load_workflow

Prepared = TypeVar("Prepared")


class Providers(dict[str, Provider]):
    """Providers by name, each made when it is first asked for; they work in the project's folder."""

    def __init__(self, project: Path) -> None:
        super().__init__()
        self._folder = str(project)

    def __missing__(self, name: str) -> Provider:
        self[name] = Steady(name, find_provider(name), self._folder)
        return self[name]


class Runner:
    """Starts runs, continues them and waits for them. A process has one at a time.

    The engine is started with the first run; what only looks at workflows does not pay for it.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.project = existing_project(settings)
        self.control = Control(store.artifacts, store.keys)
        self._prices = read_prices(settings.prices)
        self._usual = usual_provider(settings)
        self._policies = RunPolicies(settings.handoff, settings.phases, settings.tokenizer, settings.ingest)
        self._loaded = load_templates(store, settings.project, settings.template_roots)
        world = World(
            store,
            Providers(self.project),
            run_program,
            project=self.project,
            documents=ProjectDocuments(self.project, IngestSettings.of(settings.ingest)),
        )
        self._executor = Executor(world)
        self._engine: Engine | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def load(self, path_or_name: str | os.PathLike[str]) -> Workflow:
        """Return the workflow, checked against the templates and providers that are here; raise InvalidWorkflow."""
        workflow = load_workflow(os.fspath(path_or_name), known_here(self._loaded, self.store), self._usual)
        priced = msgspec.structs.replace(workflow, prices={**self._prices, **workflow.prices})
        return with_source(priced, workflow.source)

    def open(self, workflow: Workflow, inputs: Mapping[str, Any]) -> ArtifactKey:
        """Record that a run begins, so that anybody can continue it; nothing is done yet. Raises InvalidInputs."""
        resolved = resolve_inputs(workflow, inputs)
        own = (Path(self.store.artifacts.location).name, "engine.db", "engine.lock", "engine.slots")
        config = run_config(
            workflow, self.store.templates, self._policies, self.project, ignore=_named(self.project, own)
        )
        return open_run(self.store, workflow, resolved, config)

    def start(self, workflow: Workflow, inputs: Mapping[str, Any]) -> ArtifactKey:
        """Begin a run; return its key while it runs."""
        run = self.open(workflow, inputs)
        self._submit(run)
        return run

    def resume(self, run: ArtifactKey) -> None:
        """Continue a run that was interrupted or paused. Raises RunSealed, RunBusy, NotFound."""
        self._take_over(run)
        self.control.resume(run.text)
        self._submit(run)

    def cancel(self, run: ArtifactKey) -> str:
        """Ask for the run's end; return its status now. The process at it obeys; without one it is sealed here."""
        if (status := self.status(run)) != "running":
            raise RunSealed(run.text, status)
        self.control.cancel(run.text)
        try:
            self._take_over(run)
        except RunBusy:
            return "running"
        return asyncio.run(self._executor.finish(run.text))

    def status(self, run: ArtifactKey) -> str:
        """Return the run's status as the index has it: running, or what it was sealed with. Raises NotFound."""
        return self._row(run).status

    def wait(self, run: ArtifactKey, timeout_s: float | None = None) -> str | None:
        """Return the status the run ended with (`paused` is one), or None after `timeout_s`. Raises EngineFailed."""
        assert self._engine is not None
        try:
            return self._engine.wait(run.text, timeout_s)
        except SapwoodError:
            raise
        except Exception as error:  # the engine's own words for what a step could not record
            raise EngineFailed(run.text, str(error)) from error

    def close(self) -> None:
        """Stop; what still runs is left to be continued."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        if self._folder is not None:
            self._folder.cleanup()

    def _submit(self, run: ArtifactKey) -> None:
        if self._engine is None:
            from sapwood.engine.boot import boot

            self._engine = boot(self._engine_path(), self._executor)
        self._engine.submit(run.text)

    def _engine_path(self) -> Path:
        if self.store.artifacts.location != MEMORY:
            return Path(self.store.artifacts.location).with_name("engine.db")
        self._folder = tempfile.TemporaryDirectory(prefix="sapwood-")
        return Path(self._folder.name) / "engine.db"

    def _row(self, run: ArtifactKey) -> RunRow:
        with self.store.artifacts.read() as reader:
            row = reader.find_run(run)
        if row is None:
            raise NotFound(f"run {run}", "`sapwood runs` lists what is stored")
        return row

    def _take_over(self, run: ArtifactKey) -> None:
        self.store.recorder.hold_run()
        row = self._row(run)
        if row.status != "running":
            raise RunSealed(run.text, row.status)
        own = self.store.recorder.owner
        if row.owner == own:
            return
        if self.store.is_alive(row.owner) or not self.store.artifacts.change_owner(run, row.owner, own):
            raise RunBusy(run.text, row.owner)


def _named(folder: Path, beginnings: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in `folder` that begin like files of the store or the engine."""
    return tuple(path.name for path in folder.iterdir() if path.name.startswith(beginnings))


def usual_provider(settings: Settings) -> Usual:
    """Return who answers for nodes that name nobody; raise InvalidSettings when there is no such provider."""
    names = provider_names()
    if settings.provider not in names:
        raise InvalidSettings("provider", "; ".join(unknown_name("provider", settings.provider, names)))
    return Usual(settings.provider, settings.provider_options)


def known_here(loaded: Loaded, store: Store) -> Known:
    """Return what a workflow may name here."""
    templates = {version.template_id.text: version.variables for version in store.artifacts.list_versions()}
    templates.update({file.static.template_id.text: file.static.variables for file in loaded.files})
    refused = {
        name: f"{one.path}: {one.error}" for one in loaded.refused if (name := getattr(one.error, "template_id", None))
    }
    usable = {name: variables for name, variables in templates.items() if name not in refused}
    return Known(provider_names(), usable, refused, check_options)


def before_a_store(path: str, settings: Settings, prepare: Callable[[Runner], Prepared]) -> Prepared | None:
    """Return what `prepare` gives while there is no store at `path`, so that a mistake makes none; else None."""
    if path == MEMORY or os.path.lexists(path):
        return None
    with open_store(MEMORY) as store, Runner(store, settings) as runner:
        return prepare(runner)


def run_workflow(
    path_or_name: str | os.PathLike[str],
    inputs: Mapping[str, Any] | None = None,
    *,
    store: Store | str | os.PathLike[str] | None = None,
    project: str | os.PathLike[str] = ".",
) -> ArtifactKey:
    """Run a workflow to its end in this process and return the run's key; its status is in the store.

    `store` is an open store, or where one is; without it the project's own is used.
    """
    expect(
        path_or_name, (str, os.PathLike), "path_or_name", "the path of a workflow file, or the name of a built-in one"
    )
    expect(inputs, (Mapping, type(None)), "inputs", "a table of values by name")
    expect(store, (Store, str, os.PathLike, type(None)), "store", "an open store, or the path of one")
    expect(project, (str, os.PathLike), "project", "the path of a folder")
    given = None if store is None or isinstance(store, Store) else os.fspath(store)
    settings = Settings.read({"project": os.fspath(project), "store": given}, os.environ)
    existing_project(settings)

    def prepare(runner: Runner) -> Workflow:
        workflow = runner.load(path_or_name)
        resolve_inputs(workflow, inputs or {})
        return workflow

    path = given or settings.store_path
    workflow = None if isinstance(store, Store) else before_a_store(path, settings, prepare)
    opened = store if isinstance(store, Store) else open_project_store(path)
    try:
        with Runner(opened, settings) as runner:
            run = runner.start(workflow or prepare(runner), inputs or {})
            runner.wait(run)
            return run
    finally:
        if opened is not store:
            opened.close()
