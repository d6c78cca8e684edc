"""A gate node: asks a person, and waits until an answer is recorded, by whichever process."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from sapwood.core.artifacts import AgentRequest, EventArtifact
from sapwood.core.events import InterruptStatusEvent, NodeReviewRequestedEvent
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import GateNode
from sapwood.runtime.evidence import gate_evidence
from sapwood.runtime.history import ANSWER, load_artifact
from sapwood.runtime.journal import Journal
from sapwood.runtime.world import Done, Work

POLLING_S: Final = 0.1


class Answer(NamedTuple):
    decision: str
    who: str | None
    when: str


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
        ProviderResult(report=answer.decision, content_type="text", decision=decision),
        products=(gate_evidence(request, work, journal, who=answer.who, when=answer.when, answer=answer.decision),),
    )


def _request(work: Work, journal: Journal) -> AgentRequest:
    with journal.world.store.artifacts.read() as reader:
        return load_artifact(reader, work.attempt.request, AgentRequest)


def _answer(work: Work, journal: Journal) -> Answer | None:
    with journal.world.store.artifacts.read() as reader:
        key = reader.find_claim(work.plan.run, work.node.key, work.attempt.number, 0, ANSWER)
        said = None if key is None else load_artifact(reader, key, EventArtifact)
    return None if said is None else Answer(said.payload["message"], said.payload.get("who"), said.timestamp)
