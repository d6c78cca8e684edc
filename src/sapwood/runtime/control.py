"""What people tell a run from outside: cancel, pause, go on, and answers to its gates. Each is recorded once.

The process at the run finds it in the store; nobody has to be reached. The first answer to a gate stands.
"""

from __future__ import annotations

from sapwood.clock import KeyFactory
from sapwood.core.codec import to_record
from sapwood.core.event_artifacts import artifact_of_event
from sapwood.core.events import (
    AddMessageEvent,
    GraphEvent,
    PauseEvent,
    ResolveInterruptEvent,
    ResumeEvent,
    StopAgentEvent,
)
from sapwood.core.instants import instant_of_ms
from sapwood.core.keys import ArtifactKey
from sapwood.core.workflow import GateNode
from sapwood.errors import DuplicateClaim, InvalidAnswer, NotFound
from sapwood.ports import ArtifactStore, Claim
from sapwood.runtime.histories import Histories
from sapwood.runtime.history import History
from sapwood.runtime.roles import ANSWER, CANCEL, MESSAGE, OF_RUN, PAUSE, RESUME


class Control:
    def __init__(self, store: ArtifactStore, keys: KeyFactory) -> None:
        self._store = store
        self._keys = keys
        self._histories = Histories(store)

    def cancel(self, run: str) -> bool:
        """Ask for the end of the run; tell whether this was the first to ask."""
        return self._say(run, 0, CANCEL, StopAgentEvent, reason="cancelled by a person")

    def pause(self, run: str) -> bool:
        """Let what runs end and start nothing more; tell whether the run was not paused already."""
        if self._histories.load(run).is_paused:
            return False
        return self._say(run, self._count(run, PAUSE), PAUSE, PauseEvent, message="paused by a person")

    def resume(self, run: str) -> bool:
        """Lift a pause; tell whether there was one."""
        if not self._histories.load(run).is_paused:
            return False
        return self._say(run, self._count(run, RESUME), RESUME, ResumeEvent, message="resumed by a person")

    def answer(self, run: str, node: str, answer: str, who: str, message: str = "") -> bool:
        """Answer the gate's open attempt; tell whether this was the first answer. A `message` is handed on with it."""
        history = self._histories.load(run)
        gate = history.node(node) if node in history.homes else None
        tried = history.attempts.get(node, [])
        if not isinstance(gate, GateNode) or not tried:
            raise NotFound(f"an open question at node {node} of run {run}", _open_questions(history))
        if answer not in gate.answers:
            raise InvalidAnswer(node, answer, gate.answers)
        if tried[-1].result is not None:
            if self._is_answered(run, node, tried[-1].number):
                return False
            raise NotFound(f"an open question at node {node} of run {run}", "it ended without an answer")
        number, below = tried[-1].number, tried[-1].request
        said: list[tuple[str, type[GraphEvent], str]] = [(ANSWER, ResolveInterruptEvent, answer)]
        if message:
            said.append((MESSAGE, AddMessageEvent, message))
        events = [(role, self._event(kind, node, who, message=text)) for role, kind, text in said]
        return self._record(run, node, number, events, below)

    def _is_answered(self, run: str, node: str, number: int) -> bool:
        with self._store.read() as reader:
            claims = reader.list_claims(self._histories.plan(run).run)
        return any((claim.role, claim.node, claim.attempt) == (ANSWER, node, number) for claim in claims)

    def _count(self, run: str, role: str) -> int:
        with self._store.read() as reader:
            return sum(claim.role == role for claim in reader.list_claims(self._histories.plan(run).run))

    def _say(self, run: str, number: int, role: str, kind: type[GraphEvent], **payload: str) -> bool:
        return self._record(run, OF_RUN, number, [(role, self._event(kind, OF_RUN, "", **payload))])

    def _event(self, kind: type[GraphEvent], node: str, who: str, **payload: str) -> GraphEvent:
        segment = self._keys.segment()
        now = instant_of_ms(ArtifactKey(f"ak:{segment}").time_ms)
        unknown = {"who": who} if who else {}
        return kind(event_id=segment, node_id=node or None, timestamp=now, unknown=unknown, **payload)

    def _record(
        self,
        run: str,
        node: str,
        number: int,
        events: list[tuple[str, GraphEvent]],
        below: ArtifactKey | None = None,
    ) -> bool:
        """Record all of it, unless somebody was faster."""
        plan = self._histories.plan(run)
        made = [(role, artifact_of_event(self._keys.child(below or plan.agents), event)) for role, event in events]
        claims = [Claim(plan.run, node, number, 0, role, artifact.key) for role, artifact in made]
        try:
            self._store.append([to_record(artifact) for _, artifact in made], claims=claims)
        except DuplicateClaim:
            return False
        return True


def _open_questions(history: History) -> str:
    """Say which nodes wait for an answer."""
    gates = [node for node in history.homes if isinstance(history.node(node), GateNode)]
    open_now = [node for node in gates if (tried := history.attempts.get(node)) and tried[-1].result is None]
    return f"open: {', '.join(open_now)}" if open_now else "no node of it asks now"
