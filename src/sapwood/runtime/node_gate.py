"""A gate node: asks a person, and waits until an answer is recorded, by whichever process."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from sapwood.core.artifacts import AgentRequest, EventArtifact
from sapwood.core.events import InterruptStatusEvent, NodeReviewRequestedEvent
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import GateNode
from sapwood.runtime.evidence import gate_evidence
from sapwood.runtime.journal import Journal
from sapwood.runtime.loading import load_artifact
from sapwood.runtime.roles import ANSWER, MESSAGE
from sapwood.runtime.watch import POLLING_S
from sapwood.runtime.world import Done, Work


class Answer(NamedTuple):
    decision: str
    who: str | None
    when: str
    message: str = ""

    @property
    def text(self) -> str:
        """Return what the gate hands on: the decision, and below it what the person said besides."""
        return f"{self.decision}\n\n{self.message}" if self.message else self.decision


async def ask(node: GateNode, work: Work, journal: Journal) -> Done:
    request = await asyncio.to_thread(_request, work, journal)
    shown = request.serialize(for_="interrupt")
    journal.emit(
        work.delivery,
        journal.event(NodeReviewRequestedEvent, node.key, review_type="gate", content_to_review=shown),
        journal.event(InterruptStatusEvent, node.key, interrupt_type="gate", interrupt_status="waiting"),
    )
    while (answer := await asyncio.to_thread(_answer, work, journal)) is None:
        await asyncio.sleep(POLLING_S)
    journal.emit(
        work.delivery,
        journal.event(InterruptStatusEvent, node.key, interrupt_type="gate", interrupt_status="resolved"),
    )
    decision: Any = answer.decision  # checked against the gate's answers when it was given
    return Done(
        ProviderResult(report=answer.text, content_type="text", decision=decision),
        products=(gate_evidence(request, work, journal, who=answer.who, when=answer.when, answer=answer.decision),),
    )


def _request(work: Work, journal: Journal) -> AgentRequest:
    with journal.world.store.artifacts.read() as reader:
        return load_artifact(reader, work.attempt.request, AgentRequest)


def _answer(work: Work, journal: Journal) -> Answer | None:
    where = (work.plan.run, work.node.key, work.attempt.number, 0)
    with journal.world.store.artifacts.read() as reader:
        key, message_key = (reader.find_claim(*where, role) for role in (ANSWER, MESSAGE))
        said = None if key is None else load_artifact(reader, key, EventArtifact)
        added = None if message_key is None else load_artifact(reader, message_key, EventArtifact)
    if said is None:
        return None
    message = "" if added is None else str(added.payload["message"])
    return Answer(said.payload["message"], said.payload.get("who"), said.timestamp, message)
