"""What the layers above ask of the world: a few verbs each, written for the caller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import msgspec

from sapwood.core.events import GraphEvent
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.core.record import Record
from sapwood.core.template import Templated, TemplateId, TemplateVersion

Clock = Callable[[], int]
"""Gives the milliseconds since 1970."""

Entropy = Callable[[int], bytes]
"""Gives that many random bytes."""


class TemplateStore(Protocol):
    """Keeps template versions: one per (id, content hash), for ever."""

    def find_version(self, template_id: TemplateId, content_hash: str) -> TemplateVersion | None:
        """Return the version with this id and hash, or None."""

    def known_hashes(self, template_ids: Iterable[TemplateId]) -> set[tuple[str, str]]:
        """Return the (id, content hash) pairs that are stored for these ids; one query for many files."""

    def add_version(self, version: TemplateVersion) -> TemplateVersion:
        """Store `version` unless its (id, hash) is there; return the one that is stored now, whoever stored it."""

    def list_versions(self, prefix: str = "tpl") -> Sequence[TemplateVersion]:
        """Return the versions of every id in this family, by id, then by key."""


class Provider(Protocol):
    """Runs one prompt in a fresh session."""

    def run(self, prompt: str, options: ProviderRunOptions) -> AsyncIterator[GraphEvent | ProviderResult]:
        """Yield what happens while it happens, and last the one result. Raises ProviderError when there is none."""


class Steps(Protocol):
    """What a run does, one verb a step. Each step adopts what the store already has, or does it and records it.

    A step may be run again after a crash, in another process, with an empty engine. What is expected to go wrong is
    recorded and returned; an exception means that the step could not be recorded. Answers are names and routing data,
    never texts: the engine keeps them.
    """

    async def route(self, run: str, running: Sequence[str]) -> list[str]:
        """Return the visits `<node>.<attempt>` to start now besides `running`; none of either ends the graph."""

    async def claim(self, run: str, node: str, attempt: int) -> None:
        """Open the attempt."""

    async def call(self, run: str, node: str, attempt: int) -> str:
        """Do the node's work once, when its turn has come; return the attempt's status, or `paused`."""

    async def finish(self, run: str) -> str:
        """Close the run as far as it can be closed; return its status."""


class Engine(Protocol):
    """Decides when the steps of a run are taken. Calls may come from any thread."""

    def submit(self, run: str) -> None:
        """Start `run` here, or continue it when nobody is at it. Raises RunBusy while a live process is."""

    def wait(self, run: str, timeout_s: float | None = None) -> str | None:
        """Return the status a submitted run ended with, or None after `timeout_s`. Raises what made it impossible."""

    def abandoned(self) -> list[str]:
        """Return the runs whose process has died, as the engine's database shows them now, oldest first."""

    def close(self) -> None:
        """Stop. What still runs is left unfinished and can be submitted again, here or elsewhere."""


class Document(NamedTuple):
    """A node's document: its place below `docs/` or `audits/` of the project, and whose it is."""

    path: str
    text: str
    run: ArtifactKey
    node: str
    attempt: int
    mode: str = "unknown"


class IngestedDocument(NamedTuple):
    """What became of the files that a document declares: artifacts, the paths written, and what went wrong."""

    artifacts: Sequence[Artifact]
    written: Sequence[str]
    manifest: dict[str, Any]
    problems: Sequence[str] = ()

    @property
    def is_whole(self) -> bool:
        return not self.problems and not self.manifest["summary"]["rejected"]


class Documents(Protocol):
    """Writes what nodes hand on into the project, and nowhere else."""

    def write(self, document: Document) -> None:
        """Write the document, synced. Raises PathRefused or DocumentNotWritten."""

    def ingest(
        self, document: Document, parent: ArtifactKey, mint: Callable[[ArtifactKey], ArtifactKey]
    ) -> IngestedDocument:
        """Write the files that the document declares; return them and their manifest as artifacts below `parent`."""


class Claim(NamedTuple):
    """Says that `key` is what was recorded for this role of this delivery; there is never a second one."""

    run: ArtifactKey
    node: str
    attempt: int
    delivery: int
    role: str
    key: ArtifactKey


class RunStart(NamedTuple):
    """A run enters the index. `owner` is the spool of the process that records it."""

    key: ArtifactKey
    workflow_run_id: int
    started_ms: int
    owner: str = ""
    node_ids: int = 0
    artifact_ids: int = 0


class RunEnd(NamedTuple):
    """A run is sealed, provided that it still has exactly the `judged` artifacts that were judged."""

    key: ArtifactKey
    status: str
    ended_ms: int
    head: str
    judged: int


class RunRow(NamedTuple):
    """What the index knows of a run; the tree and its Seal are the truth."""

    key: ArtifactKey
    workflow_run_id: int
    status: str
    started_ms: int
    ended_ms: int | None
    head: str | None
    owner: str


class Reader(Protocol):
    """One consistent view of the store, while its `with` block lasts."""

    def find(self, key: ArtifactKey) -> Record | None:
        """Return the artifact with this key, or None."""

    def load(
        self, key: ArtifactKey | None = None, *, after: ArtifactKey | None = None, limit: int | None = None
    ) -> Iterator[Record]:
        """Yield the artifact and all below it (all of the store without `key`) in key order, from beyond `after`."""

    def load_kinds(self, key: ArtifactKey | None, kinds: Sequence[str]) -> Iterator[Record]:
        """Yield those of these kinds among the artifact and all below it, in key order."""

    def outline(self, key: ArtifactKey | None = None, kinds: Sequence[str] | None = None) -> Iterator[Outline]:
        """Yield what `load` (or `load_kinds`) would, without the contents: what a tree's shape and head need."""

    def glance(
        self,
        key: ArtifactKey,
        *,
        after: ArtifactKey | None = None,
        limit: int | None = None,
        depth: int | None = None,
    ) -> Iterator[Glance]:
        """Yield what `load` would, at most `depth` levels below `key`, with the beginning of each content only."""

    def timeline_keys(
        self, key: ArtifactKey, *, after: ArtifactKey | None = None, limit: int | None = None
    ) -> Iterator[ArtifactKey]:
        """Yield the keys at and below `key` in the order of making: by last segment, then by whole key."""

    def last_key(self, key: ArtifactKey) -> ArtifactKey | None:
        """Return the last key in key order at or below `key`, or None when nothing is stored there."""

    def child_keys(
        self, key: ArtifactKey, *, after: ArtifactKey | None = None, limit: int | None = None
    ) -> Iterator[ArtifactKey]:
        """Yield the keys directly below `key`, whatever stands below those, also where only a descendant is stored."""

    def count(self, key: ArtifactKey | None = None) -> int:
        """Return how many artifacts stand at and below `key`, or in the store."""

    def find_run(self, key: ArtifactKey) -> RunRow | None:
        """Return the run's row of the index, or None."""

    def list_runs(
        self, *, before: ArtifactKey | None = None, limit: int | None = None, status: str | None = None
    ) -> list[RunRow]:
        """Return the runs newest first, from beyond `before`."""

    def find_claim(self, run: ArtifactKey, node: str, attempt: int, delivery: int, role: str) -> ArtifactKey | None:
        """Return the key that was recorded for this role, or None."""

    def damaged(self, key: ArtifactKey | None = None) -> Iterator[str]:
        """Yield, in words, each row at and below `key` whose columns are not what was written.

        Without `key`: whatever is wrong with the store, its indexes and its guards too. Contents and chunks have
        hashes of their own, which the caller compares.
        """

    def list_claims(self, run: ArtifactKey) -> list[Claim]:
        """Return every claim of the run, by node, attempt, delivery and role."""


class Outline(msgspec.Struct, frozen=True, gc=False):
    """A record without its content."""

    key: ArtifactKey
    kind: str
    content_hash: str
    metadata: bytes


class Glance(NamedTuple):
    """What one sees of a record without reading all of its content."""

    key: ArtifactKey
    kind: str
    content_hash: str
    metadata: bytes
    size_bytes: int
    start: bytes


GLANCE_BYTES = 400


class ArtifactStore(TemplateStore, Protocol):
    """Keeps artifacts for ever: nothing in it changes, nothing is removed."""

    @property
    def location(self) -> str:
        """Where the store is, for messages."""

    def append(
        self,
        records: Sequence[Record],
        *,
        starts: Sequence[RunStart] = (),
        claims: Sequence[Claim] = (),
        end: RunEnd | None = None,
    ) -> None:
        """Store all of it or nothing, in one transaction that is synced when this returns.

        Also without records: then what other calls wrote before is synced. Raises DuplicateKey, DuplicateClaim,
        RunSealed, RunChanged, or a StoreError.
        """

    def stored(self, keys: Iterable[ArtifactKey]) -> set[ArtifactKey]:
        """Return those of the keys that are stored."""

    def read(self) -> AbstractContextManager[Reader]:
        """Return a view in which everything was read at one moment."""

    def next_workflow_run_id(self) -> int:
        """Return a number that this store never gives again."""

    def reserve_ids(self, run: ArtifactKey, nodes: int, artifacts: int) -> tuple[int, int]:
        """Reserve that many run_node_ids and artifact_ids of the run; return the first of each."""

    def change_owner(self, run: ArtifactKey, old: str, new: str) -> bool:
        """Take an open run over from `old`; tell whether it was still theirs."""

    def close(self) -> None:
        """Give back files and connections; harmless when repeated."""


class Rendered(NamedTuple):
    """A template's output, and all that says how it came about. `args_json` is what PromptArgs stores."""

    version: TemplateVersion
    args_json: bytes
    text: str
    renderer: str
    renderer_version: str


class Templates(Protocol):
    """The template registry, as recording and verifying need it."""

    def register(self, template_id: str, text: str, variables: Iterable[str] = ()) -> TemplateVersion:
        """Store this text as the current version of the family, or find the version it already is."""

    def render(self, template: str | Templated, args: Mapping[str, object]) -> Rendered:
        """Render the current version of a family; a template defined in code is registered by its first use."""

    def current(self, template_id: str) -> TemplateVersion | None:
        """Return the version that this process uses for the family; None when it has none of its own."""

    def rerender(self, text: str, args_json: bytes, variables: tuple[str, ...], template_id: str | None, /) -> str:
        """Render a stored text with stored arguments, the way an untrusted text is rendered."""

    @property
    def renderer(self) -> tuple[str, str]:
        """The name and version of what renders here."""
