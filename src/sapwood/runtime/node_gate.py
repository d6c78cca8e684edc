"""A gate node: asks a person, and waits until an answer is recorded, by whichever process."""

from __future__ import annotations

import asyncio
from typing import Final

from sapwood.core.codec import from_record
from sapwood.core.events import InterruptStatusEvent, NodeReviewRequestedEvent, ResolveInterruptEvent
from sapwood.core.keys import ArtifactKey
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import GateNode
from sapwood.runtime.history import ANSWER
from sapwood.runtime.journal import Journal
from sapwood.runtime.world import Done, Work

POLLING_S: Final = 0.1


async def ask(node: GateNode, work: Work, journal: Journal) -> Done:
    journal.emit(
        work.delivery,
        journal.event(NodeReviewRequestedEvent, node.key, review_type="gate", content_to_review=node.ask),
        journal.event(InterruptStatusEvent, node.key, interrupt_type="gate", interrupt_status="waiting"),
    )
    while (answer := await asyncio.to_thread(_answer, work, journal)) is None:
        await asyncio.sleep(POLLING_S)
    journal.emit(work.delivery, journal.event(ResolveInterruptEvent, node.key, message=answer))
    return Done(ProviderResult(report=answer, content_type="text", decision=answer))  # type: ignore[arg-type]


def _answer(work: Work, journal: Journal) -> str | None:
    with journal.world.store.artifacts.read() as reader:
        key: ArtifactKey | None = reader.find_claim(work.plan.run, work.node.key, work.attempt.number, 0, ANSWER)
        record = None if key is None else reader.find(key)
    answer = None if record is None else from_record(record)
    return None if answer is None else str(getattr(answer, "payload", {}).get("message"))
