"""The recording API: a store that starts, continues, reads and verifies runs. `app.open_store` puts it together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from sapwood.clock import KeyFactory
from sapwood.core.artifact_event import ArtifactEvent
from sapwood.core.artifacts import (
    AgentRequest,
    RefArtifact,
)
from sapwood.core.codec import from_record, read_content
from sapwood.core.expect import expect
from sapwood.core.findings import Finding
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.reconstruct import Reconstruction, reconstruct
from sapwood.core.record import Record
from sapwood.core.references import EVIDENCE_ROLE
from sapwood.core.tree import REQUIRED_GROUPS, ArtifactTree
from sapwood.errors import NotFound, RunSealed, StoreDamaged, WrongArgument
from sapwood.ports import ArtifactStore, Clock, RunRow, RunStart, Templates
from sapwood.runtime.collector import without_collector
from sapwood.runtime.pauses import is_paused
from sapwood.runtime.recorder import Listener, Recorder
from sapwood.runtime.records import offered_record, opening_records
from sapwood.runtime.run import FIRST_IDS, Ids, Run, as_key
from sapwood.runtime.shielded import shielded
from sapwood.runtime.verify import Progress, Verification, Verifier

STATUSES: Final = ("running", "paused", "interrupted", "completed", "failed", "cancelled")


class Store:
    """What `sapwood.open` gives: records runs, and reads, verifies and rebuilds them."""

    def __init__(
        self,
        artifacts: ArtifactStore,
        recorder: Recorder,
        templates: Templates,
        keys: KeyFactory,
        clock: Clock,
        is_alive: Callable[[str], bool],
    ) -> None:
        self.artifacts = artifacts
        self.recorder = recorder
        self.templates = templates
        self.keys = keys
        self.clock = clock
        self.is_alive = is_alive

    def record(
        self, config: Mapping[str, Any] | None = None, inputs: Mapping[str, Any] | None = None, *, workflow: Any = UNSET
    ) -> Run:
        """Start a run: its root, its configuration, its inputs and its four groups are synced when this returns."""
        expect(inputs, (Mapping, type(None)), "inputs", "a table of values by name")
        self.recorder.hold_run()
        number = self.artifacts.next_workflow_run_id()
        groups, records = opening_records(self.keys, number, {} if config is None else config, inputs or {}, workflow)
        root = records[0].key
        start = RunStart(root, number, self.clock(), self.recorder.owner, FIRST_IDS, FIRST_IDS)
        self.recorder.append(records, [start])
        return self._run(root, groups, Ids(self.artifacts, root, reserved=FIRST_IDS))

    def attach(self, run_key: ArtifactKey | str) -> Run:
        """Continue a run that is not sealed, also one that another process started."""
        key = as_key(run_key)
        self.recorder.hold_run()
        self.recorder.flush()
        with self.artifacts.read() as reader:
            row = reader.find_run(key)
            if row is None:
                raise NotFound(f"run {key}", "sapwood runs lists them")
            if row.status != "running":
                raise RunSealed(key.text, row.status)
            children = [reader.find(child) for child in reader.child_keys(key)]
            requests = [from_record(record) for record in reader.load_kinds(key, ["AgentRequest"])]
        if row.owner != self.recorder.owner and not self.is_alive(row.owner):
            self.artifacts.change_owner(key, row.owner, self.recorder.owner)  # it is not interrupted any more
        groups = {
            record.kind: record.key for record in children if record is not None and record.kind in REQUIRED_GROUPS
        }
        run = self._run(key, groups, Ids(self.artifacts, key))
        run.remember([request for request in requests if isinstance(request, AgentRequest)])
        return run

    def publish(self, event: ArtifactEvent | Artifact | Record) -> None:
        """Record an artifact whose key its maker chose. Its key, its references and its run are checked first."""
        record = offered_record(event.artifact if isinstance(event, ArtifactEvent) else event)
        starts = []
        if record.kind == "Execution" and record.key.depth == 1:
            self.recorder.hold_run()
            number = self.artifacts.next_workflow_run_id()
            starts.append(RunStart(record.key, number, record.key.time_ms, self.recorder.owner))
        self.recorder.publish([record], starts)

    def load(self, key: ArtifactKey | str) -> ArtifactTree:
        """Return the artifact and all below it as a tree; raise NotFound when nothing is stored there."""
        wanted = as_key(key)
        with self.artifacts.read() as reader, without_collector():
            tree = ArtifactTree(reader.load(wanted))
        if not len(tree):
            raise _nothing_at(wanted)
        return tree

    def contents(self, key: ArtifactKey | str) -> list[tuple[Record, Any]]:
        """Return the artifact and all below it in key order, each with its content: a JSON value, a text or bytes."""
        wanted = as_key(key)
        with self.artifacts.read() as reader, without_collector():
            found = [(record, read_content(record)) for record in reader.load(wanted)]
        if not found:
            raise _nothing_at(wanted)
        return found

    def verify(
        self,
        key: ArtifactKey | str | None = None,
        *,
        head: str | None = None,
        progress: Progress = lambda _count: None,
    ) -> Verification:
        """Recompute everything about the store, a run, or a part of one; `head` is one that was kept somewhere else."""
        wanted = None if key is None else as_key(key)
        expect(head, (str, type(None)), "head", "the 64 hexadecimal digits that were kept")
        try:
            with self.artifacts.read() as reader:
                verifier = Verifier(reader, self.templates.rerender, self.templates.renderer, progress)
                verification = verifier.verify_store() if wanted is None else verifier.verify(wanted, head)
        except StoreDamaged as error:  # worse than a wrong row: the file cannot be read to its end
            return Verification(wanted, 0, "", (Finding("damaged", wanted, f"reading stopped: {error.why}"),))
        if wanted is not None and not verification.artifacts and not verification.findings:
            raise _nothing_at(wanted)
        return verification._replace(findings=(*verification.findings, *self._interruptions(wanted)))

    def _interruptions(self, key: ArtifactKey | None) -> list[Finding]:
        try:
            rows = [row for row in self.runs(status="interrupted") if key in (None, row.key)]
        except StoreDamaged:
            return []  # found already, and more exactly
        about = "its process is gone before its end"
        return [Finding("interrupted", row.key, about, is_failure=False) for row in rows]

    def reconstruct(self, key: ArtifactKey | str) -> Reconstruction:
        """Return what happened, from the tree alone, every prompt rebuilt from its parts."""
        top = as_key(key)
        tree = self.load(top)
        with self.artifacts.read() as reader:
            told = reconstruct(tree, self.templates.rerender, self.templates.renderer, reader.find)
            if top.parent is not None and reader.find(top.parent) is not None:  # above the part that was asked for
                told.findings[:] = [one for one in told.findings if (one.code, one.key) != ("orphan", top)]
        return told

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with the records of each recording call; returns the way out."""
        if not callable(listener):
            raise WrongArgument("listener", listener, "a function of the records")
        return self.recorder.subscribe(listener)

    def evidence(
        self, run_key: ArtifactKey | str, name: str, *, passed: bool | None, evidence: Any = UNSET
    ) -> ArtifactKey:
        """Record a fact about a sealed run: a small run of its own that refers to it. Return its key."""
        about = as_key(run_key)
        with self.artifacts.read() as reader:
            if reader.find_run(about) is None:
                raise NotFound(f"run {about}", "sapwood runs lists them")
        with self.record(config={}, inputs={}) as run:
            key = run.keys.child(run.groups["InputArtifacts"])
            run.add(RefArtifact(key, target=about, role=EVIDENCE_ROLE))
            run.outcome(name, passed=passed, evidence=evidence)
        return run.key

    def runs(
        self, *, before: ArtifactKey | None = None, limit: int | None = None, status: str | None = None
    ) -> list[RunRow]:
        """Return the runs newest first; an open one may be `paused`, or `interrupted` when its owner is gone."""
        expect(limit, (int, type(None)), "limit", "how many")
        if status not in (None, *STATUSES):
            raise WrongArgument("status", status, f"one of {', '.join(STATUSES)}")
        stored = "running" if status in ("interrupted", "paused") else status
        found: list[RunRow] = []
        for row in self._all_runs(before, stored):
            shown = self._as_it_stands(row)
            if status in (None, shown.status):
                found.append(shown)
            if limit is not None and len(found) >= limit:
                break
        return found

    def flush(self) -> None:
        """Return when everything recorded so far is committed and synced."""
        self.recorder.flush()

    def close(self) -> None:
        """Commit what is pending and give back files and connections."""
        try:
            self.recorder.close()
        finally:
            self.artifacts.close()

    def _all_runs(self, before: ArtifactKey | None, status: str | None) -> Iterator[RunRow]:
        while True:
            with self.artifacts.read() as reader:
                page = reader.list_runs(before=before, limit=100, status=status)
            yield from page
            if len(page) < 100:
                return
            before = page[-1].key

    def _as_it_stands(self, row: RunRow) -> RunRow:
        if row.status != "running":
            return row
        with self.artifacts.read() as reader:
            if is_paused(reader.list_claims(row.key)):
                return row._replace(status="paused")
        return row if self.is_alive(row.owner) else row._replace(status="interrupted")

    def _run(self, key: ArtifactKey, groups: Mapping[str, ArtifactKey], ids: Ids) -> Run:
        return Run(key, groups, self.recorder, self.keys, self.templates, self.clock, ids)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await shielded(self.close)


def _nothing_at(key: ArtifactKey) -> NotFound:
    return NotFound(f"artifact {key}", "sapwood runs lists the runs")
