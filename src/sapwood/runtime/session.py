"""The recording API: a store, its runs and their scopes. `app.open_store` puts it together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET

from sapwood.clock import KeyFactory
from sapwood.core.artifact_event import ArtifactEvent
from sapwood.core.artifacts import (
    AgentExecutionArtifacts,
    AgentRequest,
    Execution,
    Input,
    InputArtifacts,
    OutcomeEvidence,
    OutcomeEvidenceArtifacts,
    RefArtifact,
    Seal,
    ValidationError,
)
from sapwood.core.codec import from_record, to_record
from sapwood.core.config import execution_config
from sapwood.core.events import GraphEvent
from sapwood.core.findings import Finding
from sapwood.core.hashing import hash_text
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.reconstruct import Reconstruction, reconstruct
from sapwood.core.record import Record
from sapwood.core.template import TemplateId, TemplateVersion
from sapwood.core.tree import REQUIRED_GROUPS, ArtifactTree
from sapwood.errors import IncompleteRun, InvalidArtifact, NotFound, RunChanged, RunSealed, ScopeEnded, StoreDamaged
from sapwood.ports import ArtifactStore, Clock, RunEnd, RunRow, RunStart, Templates
from sapwood.runtime.collector import without_collector
from sapwood.runtime.gate import judge
from sapwood.runtime.recorder import Listener, Recorder
from sapwood.runtime.records import event_record, request_record
from sapwood.runtime.scope import Agent, Scope, is_interruption
from sapwood.runtime.shielded import shielded
from sapwood.runtime.verify import Progress, Verification, Verifier, Versions

FIRST_IDS: Final = 64
MOST_IDS: Final = 4096


class Ids:
    """The run's integers for nodes and reports, taken from the store in blocks, so that few calls wait for it."""

    def __init__(self, store: ArtifactStore, run: ArtifactKey, *, reserved: int = 0) -> None:
        self._store = store
        self._run = run
        self._lock = threading.Lock()
        self._block = FIRST_IDS
        self._next = [1, 1]
        self._end = [reserved + 1, reserved + 1]

    def next_node_id(self) -> int:
        return self._take(0)

    def next_artifact_id(self) -> int:
        return self._take(1)

    def _take(self, which: int) -> int:
        with self._lock:
            if self._next[which] >= self._end[which]:
                wanted = (self._block, 0) if which == 0 else (0, self._block)
                first = self._store.reserve_ids(self._run, *wanted)[which]
                self._next[which], self._end[which] = first, first + self._block
                self._block = min(2 * self._block, MOST_IDS)
            number = self._next[which]
            self._next[which] += 1
            return number


class Run(Scope):
    """One run: a tree with its four groups, open until it is completed, failed or cancelled."""

    def __init__(
        self,
        key: ArtifactKey,
        groups: Mapping[str, ArtifactKey],
        recorder: Recorder,
        keys: KeyFactory,
        templates: Templates,
        clock: Clock,
        ids: Ids,
    ) -> None:
        super().__init__(self, key)
        self.recorder = recorder
        self.keys = keys
        self.templates = templates
        self.ids = ids
        self.groups = dict(groups)
        self._clock = clock
        self._lock = threading.Lock()
        self._attempts: dict[str, int] = {}
        self._node_ids: dict[str, int] = {}
        self._scopes: dict[str, ArtifactKey] = {}
        self._tried_seal: Seal | None = None

    def agent(self, name: str, request: Any = UNSET, **fields: Any) -> Agent:
        """Start an agent: a scope of its own below this run's agents."""
        return self.start_agent(self.keys.child(self._group("AgentExecutionArtifacts")), name, request, fields)

    def start_agent(self, key: ArtifactKey, name: str, request: Any, fields: Mapping[str, Any]) -> Agent:
        """Record the request that opens an agent's scope at `key`."""
        self.recorder.check_open()
        with self._lock:
            if name not in self._node_ids:
                self._node_ids[name] = self.ids.next_node_id()
            run_node_id = self._node_ids[name]
            attempt = self._attempts.get(name, 0) + 1
        self._record([request_record(key, name, attempt, run_node_id, request, fields)])
        with self._lock:
            self._attempts[name] = max(attempt, self._attempts.get(name, 0))
            self._scopes[name] = self._scopes[key.text] = key
        return Agent(self, key, name, attempt, run_node_id)

    def attach(self, agent_key: ArtifactKey | str) -> Agent:
        """Continue an agent's scope that has no result yet, also one that another process opened."""
        key = agent_key if isinstance(agent_key, ArtifactKey) else ArtifactKey(agent_key)
        self.recorder.flush()
        with self.recorder.store.read() as reader:
            record = reader.find(key) if self.key.is_ancestor_of(key) else None
            if record is None or record.kind != "AgentRequest":
                raise NotFound(f"agent {key} of run {self.key}")
            if any(found.key.parent == key for found in reader.load_kinds(key, ["AgentResult"])):
                raise ScopeEnded(key.text)
        request = from_record(record)
        assert isinstance(request, AgentRequest)
        node_id = request.run_node_id if isinstance(request.run_node_id, int) else self.ids.next_node_id()
        return Agent(self, key, request.node, request.attempt, node_id)

    def remember(self, requests: Sequence[AgentRequest]) -> None:
        """Take over the counts of attempts and nodes from what is stored."""
        for request in requests:
            self._attempts[request.node] = max(request.attempt, self._attempts.get(request.node, 0))
            self._scopes[request.node] = self._scopes[request.key.text] = request.key
            if isinstance(request.run_node_id, int):
                self._node_ids.setdefault(request.node, request.run_node_id)

    def emit(self, event: GraphEvent | Mapping[str, Any]) -> ArtifactKey:
        """Record a graph event below the node it belongs to; one of no node hangs under the run's agents."""
        node = event.node_id if isinstance(event, GraphEvent) else event.get("node_id")
        parent = self._scopes.get(node) if isinstance(node, str) else None
        key = self.keys.child(parent or self._group("AgentExecutionArtifacts"))
        self._record([event_record(key, event)])
        return key

    def outcome(self, name: str, *, passed: bool | None, evidence: Any = UNSET) -> ArtifactKey:
        """Record a fact about what came of the run; return its key."""
        key = self.keys.child(self._group("OutcomeEvidenceArtifacts"))
        self._record([to_record(OutcomeEvidence(key, name=name, passed=passed, evidence=evidence))])
        return key

    def complete(self) -> None:
        """Seal the run as completed, if what is persisted is complete; else record why not and raise IncompleteRun."""
        self._seal("completed")

    def fail(self, error: BaseException | str | None = None) -> None:
        """Seal the run as failed; `error` is recorded as a ValidationError."""
        if error is not None:
            code = "failed" if isinstance(error, str) else type(error).__name__
            self._record([self._validation_error(code, str(error) or code)])
        self._seal("failed")

    def cancel(self) -> None:
        """Seal the run as cancelled."""
        self._seal("cancelled")

    @property
    def is_ended(self) -> bool:
        return self._ended

    def _seal(self, status: str) -> None:
        if self._ended:
            raise ScopeEnded(self.key.text)
        if self._is_sealed_after_all(status):
            self._ended = True
            return
        self.recorder.flush()
        while True:
            with self.recorder.store.read() as reader:
                judgement = judge(reader, self.key)
            if status == "completed" and judgement.problems:
                errors = [self._validation_error("IncompleteRun", problem) for problem in judgement.problems]
                self.recorder.append(errors)
                raise IncompleteRun(self.key.text, judgement.problems)
            seal = Seal(self.keys.child(self.key), status=status, head=judgement.head, counts=judgement.kinds)  # type: ignore[arg-type]  # one of the three
            end = RunEnd(self.key, status, self._clock(), judgement.head, judgement.artifacts)
            try:
                self.recorder.append([to_record(seal)], end=end)
                break
            except RunChanged:
                continue  # another process added to it; judge again
            except BaseException:
                self._tried_seal = seal  # nobody knows what came of it
                raise
        self._ended = True

    def _is_sealed_after_all(self, status: str) -> bool:
        """Tell whether a Seal whose commit failed is there nevertheless: a failed sync leaves that open."""
        tried = self._tried_seal
        return tried is not None and tried.status == status and bool(self.recorder.store.stored([tried.key]))

    def _end(self, error: BaseException | None) -> None:
        if self._ended:
            return
        if is_interruption(error):
            self.recorder.flush()
        elif error is not None:
            self.fail(error)
        else:
            try:
                self.complete()
            except IncompleteRun:
                self._seal("failed")
                raise

    def _validation_error(self, code: str, message: str) -> Record:
        return to_record(ValidationError(self.keys.child(self.key), code=code, message=message))

    def _group(self, name: str) -> ArtifactKey:
        if name not in self.groups:
            raise InvalidArtifact(self.key.text, f"the run has no {name}")
        return self.groups[name]


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
        to_version: Versions,
    ) -> None:
        self.artifacts = artifacts
        self.recorder = recorder
        self.templates = templates
        self.keys = keys
        self.clock = clock
        self.is_alive = is_alive
        self._to_version = to_version

    def record(
        self, config: Mapping[str, Any] | None = None, inputs: Mapping[str, Any] | None = None, *, workflow: Any = UNSET
    ) -> Run:
        """Start a run: its root, its configuration, its inputs and its four groups are synced when this returns."""
        self.recorder.hold_run()
        number = self.artifacts.next_workflow_run_id()
        root = self.keys.root()
        groups = {name: self.keys.child(root) for name in REQUIRED_GROUPS}
        records = [
            to_record(Execution(root, workflow_run_id=number, workflow=workflow)),
            to_record(execution_config(groups["ExecutionConfig"], config or {})),
            to_record(InputArtifacts(groups["InputArtifacts"])),
            to_record(AgentExecutionArtifacts(groups["AgentExecutionArtifacts"])),
            to_record(OutcomeEvidenceArtifacts(groups["OutcomeEvidenceArtifacts"])),
            *(
                to_record(Input(self.keys.child(groups["InputArtifacts"]), name=name, value=value))
                for name, value in (inputs or {}).items()
            ),
        ]
        start = RunStart(root, number, self.clock(), self.recorder.owner, FIRST_IDS, FIRST_IDS)
        self.recorder.append(records, [start])
        return self._run(root, groups, Ids(self.artifacts, root, reserved=FIRST_IDS))

    def attach(self, run_key: ArtifactKey | str) -> Run:
        """Continue a run that is not sealed, also one that another process started."""
        key = run_key if isinstance(run_key, ArtifactKey) else ArtifactKey(run_key)
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
        artifact = event.artifact if isinstance(event, ArtifactEvent) else event
        record = artifact if isinstance(artifact, Record) else to_record(artifact)
        starts = []
        if record.kind == "Execution" and record.key.depth == 1:
            self.recorder.hold_run()
            number = self.artifacts.next_workflow_run_id()
            starts.append(RunStart(record.key, number, record.key.time_ms, self.recorder.owner))
        self.recorder.publish([record], starts)

    def load(self, key: ArtifactKey | str) -> ArtifactTree:
        """Return the artifact and all below it as a tree; raise NotFound when nothing is stored there."""
        wanted = key if isinstance(key, ArtifactKey) else ArtifactKey(key)
        with self.artifacts.read() as reader, without_collector():
            tree = ArtifactTree(reader.load(wanted))
        if not len(tree):
            raise NotFound(f"artifact {wanted}", "sapwood runs lists the runs")
        return tree

    def verify(
        self,
        key: ArtifactKey | str | None = None,
        *,
        head: str | None = None,
        progress: Progress = lambda _count: None,
    ) -> Verification:
        """Recompute everything about the store, a run, or a part of one; `head` is one that was kept somewhere else."""
        wanted = ArtifactKey(key) if isinstance(key, str) else key
        with self.artifacts.read() as reader:
            verifier = Verifier(reader, self.templates, self._to_version, progress)
            verification = verifier.verify_store() if wanted is None else verifier.verify(wanted, head)
        if wanted is not None and not verification.artifacts and not verification.findings:
            raise NotFound(f"artifact {wanted}", "sapwood runs lists the runs")
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
        tree = self.load(key)

        def render(text: str, args_json: bytes, variables: tuple[str, ...], template_id: str | None, /) -> str:
            family = TemplateId(template_id or "tpl.unknown.template")
            version = TemplateVersion(self.keys.root(), family, text, hash_text(text), variables, 0)
            return self.templates.rerender(version, args_json)

        with self.artifacts.read() as reader:
            return reconstruct(tree, render, self.templates.renderer, reader.find)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with the records of each recording call; returns the way out."""
        return self.recorder.subscribe(listener)

    def evidence(
        self, run_key: ArtifactKey | str, name: str, *, passed: bool | None, evidence: Any = UNSET
    ) -> ArtifactKey:
        """Record a fact about a sealed run: a small run of its own that refers to it. Return its key."""
        about = run_key if isinstance(run_key, ArtifactKey) else ArtifactKey(run_key)
        with self.artifacts.read() as reader:
            if reader.find_run(about) is None:
                raise NotFound(f"run {about}", "sapwood runs lists them")
        with self.record(config={}, inputs={}) as run:
            key = run.keys.child(run.groups["InputArtifacts"])
            run.add(RefArtifact(key, target=about, role="evidence_for"))
            run.outcome(name, passed=passed, evidence=evidence)
        return run.key

    def runs(
        self, *, before: ArtifactKey | None = None, limit: int | None = None, status: str | None = None
    ) -> list[RunRow]:
        """Return the runs newest first; an open one may be `paused`, or `interrupted` when its owner is gone."""
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
        from sapwood.runtime.pauses import is_paused  # it knows workflows, which recording alone does not need

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
