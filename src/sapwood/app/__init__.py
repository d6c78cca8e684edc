"""The one place that wires things together."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sapwood.clock import KeyFactory, now_ms
from sapwood.core.expect import expect
from sapwood.errors import StoreUnwritable, WrongStore
from sapwood.ports import ArtifactStore, Clock, Entropy
from sapwood.runtime.recorder import Recorder
from sapwood.runtime.recovery import recover
from sapwood.runtime.session import Store
from sapwood.runtime.spool import is_owner_alive
from sapwood.templates.files import Loaded, load_files, packaged_text, standard_roots
from sapwood.templates.refusals import record_refusal, record_refusals
from sapwood.templates.registry import TemplateRegistry

if TYPE_CHECKING:
    from sapwood.storage.sqlite import SqliteStore

MEMORY = "memory:"

logger = logging.getLogger("sapwood.app")


def open_store(
    url: str | os.PathLike[str], *, clock: Clock = now_ms, entropy: Entropy = os.urandom, create: bool = True
) -> Store:
    """Open the store at `url`: a file, or `memory:`. What killed processes left in their spools is stored first.

    While the file cannot be written, that waits in the spools; the store can be read.
    """
    expect(url, (str, os.PathLike), "url", "the path of a file, or memory:")
    keys = KeyFactory(clock, entropy)
    name = os.fspath(url)
    if name == MEMORY:
        from sapwood.storage.memory import MemoryStore

        return _store(MemoryStore(), None, keys, clock)
    if "://" in name:
        raise WrongStore(name, "this version knows files and memory:")
    sqlite = _open_sqlite(name, create)
    folder = spool_folder(sqlite.location)
    try:
        _recover(sqlite, folder)
        return _store(sqlite, folder, keys, clock)
    except BaseException:
        sqlite.close()
        raise


def load_templates(store: Store, project: Path, roots: Iterable[str] = ()) -> Loaded:
    """Start with the packaged templates, the project's own and those of `roots`; what is refused stays on record."""
    assert isinstance(store.templates, TemplateRegistry)
    project = project.resolve()  # so that a mistake has the same words however the project is named
    loaded = load_files(store.templates, store.artifacts, standard_roots(project, roots))
    record_refusals(store.artifacts, store.keys, loaded.refused, project)
    return loaded


def _recover(artifacts: ArtifactStore, folder: Path) -> None:
    try:
        recover(artifacts, folder)
    except StoreUnwritable as error:  # a full disk or a read-only file can still be read
        logger.error("what a killed process left in %s stays there for now: %s", folder, error)


def spool_folder(location: str) -> Path:
    """Return where the processes that record into this store have their spools."""
    return Path(f"{location}-spool")


def _open_sqlite(name: str, create: bool) -> SqliteStore:
    from sapwood.storage.sqlite import SqliteStore

    return SqliteStore(name, create=create)


def _store(artifacts: ArtifactStore, folder: Path | None, keys: KeyFactory, clock: Clock) -> Store:
    recorder = Recorder(artifacts, folder, keys.segment())
    on_refusal = partial(record_refusal, artifacts, keys)
    templates = TemplateRegistry(artifacts, keys=keys, clock=clock, packaged=packaged_text, on_refusal=on_refusal)
    is_alive = (lambda _owner: True) if folder is None else partial(is_owner_alive, folder)
    return Store(artifacts, recorder, templates, keys, clock, is_alive)
