"""One run while it is recorded: its agents, its events, and the seal at its end."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET

from sapwood.clock import KeyFactory
from sapwood.core.artifacts import (
    AgentRequest,
    EndStatus,
    OutcomeEvidence,
    Seal,
    ValidationError,
)
from sapwood.core.codec import from_record, to_record
from sapwood.core.events import GraphEvent
from sapwood.core.expect import expect
from sapwood.core.keys import ArtifactKey
from sapwood.core.record import Record
from sapwood.errors import IncompleteRun, InvalidArtifact, NotFound, RunChanged, ScopeEnded
from sapwood.ports import ArtifactStore, Clock, RunEnd, Templates
from sapwood.runtime.gate import judge
from sapwood.runtime.recorder import Recorder
from sapwood.runtime.records import checked_text, event_record, request_record
from sapwood.runtime.scope import Agent, Scope, is_interruption

FIRST_IDS: Final = 64
MOST_IDS: Final = 4096


def as_key(given: ArtifactKey | str) -> ArtifactKey:
    """Return the key that was given as one, or as its text."""
    return given if isinstance(given, ArtifactKey) else ArtifactKey(given)


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
        checked_text("AgentRequest.node", name)
        self.recorder.check_open()
        with self._lock:
            if name not in self._node_ids:
                self._node_ids[name] = self.ids.next_node_id()
            run_node_id = self._node_ids[name]
            attempt = self._attempts[name] = self._attempts.get(name, 0) + 1
        try:
            self._record([request_record(key, name, attempt, run_node_id, request, fields)])
        except BaseException:
            with self._lock:
                if self._attempts[name] == attempt:  # what was refused is no attempt
                    self._attempts[name] -= 1
            raise
        with self._lock:
            self._scopes[name] = self._scopes[key.text] = key
        return Agent(self, key, name, attempt, run_node_id)

    def attach(self, agent_key: ArtifactKey | str) -> Agent:
        """Continue an agent's scope that has no result yet, also one that another process opened."""
        key = as_key(agent_key)
        self.recorder.flush()
        with self.recorder.store.read() as reader:
            record = reader.find(key) if self.key.is_ancestor_of(key) else None
            if record is None or record.kind != "AgentRequest":
                raise NotFound(
                    f"agent {key} of run {self.key}", "what another process recorded is seen after its flush()"
                )
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
        expect(event, (GraphEvent, Mapping), "event", "a graph event, or its wire form: an object")
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

    def _seal(self, status: EndStatus) -> None:
        if self._ended:
            raise ScopeEnded(self.key.text)
        if self._is_sealed_after_all(status):
            self._ended = True
            return
        self.recorder.flush()
        while True:
            with self.recorder.store.read() as reader:
                judgement = judge(reader, self.key)
            problems = [*judgement.problems, *(f"it already has a Seal: {seal}" for seal in judgement.seals)]
            if status == "completed" and problems:
                self.recorder.append([self._validation_error("IncompleteRun", problem) for problem in problems])
                raise IncompleteRun(self.key.text, problems)
            seal = Seal(self.keys.child(self.key), status=status, head=judgement.head, counts=judgement.kinds)
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

    def _is_sealed_after_all(self, status: EndStatus) -> bool:
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
