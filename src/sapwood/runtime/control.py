"""What people tell a run from outside: cancel, pause, go on, and answers to its gates. Each is recorded once.

The process at the run finds it in the store; nobody has to be reached. The first answer to a gate stands.
"""

from __future__ import annotations

from sapwood.clock import KeyFactory
from sapwood.core.codec import to_record
from sapwood.core.event_artifacts import artifact_of_event
from sapwood.core.events import GraphEvent, PauseEvent, ResolveInterruptEvent, ResumeEvent, StopAgentEvent
from sapwood.core.instants import instant_of_ms
from sapwood.core.keys import ArtifactKey
from sapwood.core.workflow import GateNode
from sapwood.errors import DuplicateClaim, InvalidAnswer, NotFound
from sapwood.ports import ArtifactStore, Claim
from sapwood.runtime.history import ANSWER, CANCEL, OF_RUN, PAUSE, RESUME, Histories


class Control:
    def __init__(self, store: ArtifactStore, keys: KeyFactory) -> None:
        self._store = store
        self._keys = keys
        self._histories = Histories(store)

    def cancel(self, run: str) -> bool:
        """Ask for the end of the run; tell whether this was the first to ask."""
        return self._say(run, OF_RUN, 0, CANCEL, StopAgentEvent, reason="cancelled by a person")

    def pause(self, run: str) -> bool:
        """Let what runs end and start nothing more; tell whether the run was not paused already."""
        if self._histories.load(run).is_paused:
            return False
        return self._say(run, OF_RUN, self._count(run, PAUSE), PAUSE, PauseEvent, message="paused by a person")

    def resume(self, run: str) -> bool:
        """Lift a pause; tell whether there was one."""
        if not self._histories.load(run).is_paused:
            return False
        return self._say(run, OF_RUN, self._count(run, RESUME), RESUME, ResumeEvent, message="resumed by a person")

    def answer(self, run: str, node: str, answer: str, who: str) -> bool:
        """Answer the gate's open attempt; tell whether this was the first answer."""
        history = self._histories.load(run)
        gate = history.node(node) if node in history.homes else None
        tried = history.attempts.get(node, [])
        if not isinstance(gate, GateNode) or not tried or tried[-1].result is not None:
            raise NotFound(f"an open question at node {node} of run {run}")
        if answer not in gate.answers:
            raise InvalidAnswer(node, answer, gate.answers)
        number, below = tried[-1].number, tried[-1].request
        return self._say(run, node, number, ANSWER, ResolveInterruptEvent, message=answer, who=who, below=below)

    def _count(self, run: str, role: str) -> int:
        with self._store.read() as reader:
            return sum(claim.role == role for claim in reader.list_claims(self._histories.plan(run).run))

    def _say(
        self,
        run: str,
        node: str,
        number: int,
        role: str,
        kind: type[GraphEvent],
        *,
        who: str = "",
        below: ArtifactKey | None = None,
        **payload: str,
    ) -> bool:
        plan = self._histories.plan(run)
        key = self._keys.child(below or plan.agents)
        now = instant_of_ms(key.time_ms)
        unknown = {"who": who} if who else {}
        event = kind(event_id=self._keys.segment(), node_id=node or None, timestamp=now, unknown=unknown, **payload)
        try:
            self._store.append(
                [to_record(artifact_of_event(key, event))], claims=[Claim(plan.run, node, number, 0, role, key)]
            )
        except DuplicateClaim:
            return False
        return True
