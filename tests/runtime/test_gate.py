"""The completion gate: what a run lacks before it may be sealed as completed, judged from what is stored."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from sapwood.core.artifacts import Execution, RefArtifact
from sapwood.core.codec import to_record
from sapwood.core.plans import DiscoveryLink, PlanningTicket, Task
from sapwood.core.record import Record
from sapwood.core.tree import REQUIRED_GROUPS
from sapwood.runtime import gate as gate_module
from sapwood.runtime.gate import Judgement, judge
from sapwood.storage.memory import MemoryStore
from tests.core.trees import SmallRun

RUN = SmallRun()


def judged(*more: Record, without: tuple[str, ...] = ()) -> Judgement:
    """Return what the gate says of the small run with more records, or without those of some kinds."""
    store = MemoryStore()
    store.append([record for record in (RUN.template, *RUN.records, *more) if record.kind not in without])
    with store.read() as reader:
        return judge(reader, RUN.root)


def first(kind: str) -> Record:
    return next(record for record in RUN.records if record.kind == kind)


def test_a_whole_run_is_complete_and_counted_for_its_seal() -> None:
    judgement = judged()
    assert judgement.problems == ()
    assert judgement.seals == (RUN.seal.key,)
    assert (judgement.head, judgement.kinds) == (RUN.seal.head, RUN.seal.counts)
    assert judgement.artifacts == len(RUN.unsealed)


@pytest.mark.parametrize("kind", REQUIRED_GROUPS)
def test_a_missing_and_a_doubled_group_are_found(kind: str) -> None:
    told = f"required group {kind}: {{}} directly below the root, expected one"
    again, deeper = (replace(first(kind), key=RUN.keys.child(above)) for above in (RUN.root, RUN.lead))
    assert judged(without=(kind,)).problems == (told.format(0),)
    assert judged(again).problems == (told.format(2),)
    assert judged(deeper).problems == ()


@pytest.mark.mutant
def test_a_gate_that_forgets_a_group_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "REQUIRED_GROUPS", REQUIRED_GROUPS[:-1])
    with pytest.raises(AssertionError):
        test_a_missing_and_a_doubled_group_are_found(REQUIRED_GROUPS[-1])


def test_a_wrong_root_and_a_second_one_are_found() -> None:
    assert judged(without=("Execution",)).problems == ("no Execution at its root",)
    second = to_record(Execution(RUN.keys.child(RUN.lead)))
    assert judged(second).problems == (f"a second root: Execution {second.key}",)


def test_references_resolve_in_the_run_or_outside_it() -> None:
    (dangling,) = judged(without=("PromptTemplate",)).problems
    assert dangling.endswith(f"refers to {RUN.template.key}, which is not stored")
    inside = to_record(RefArtifact(RUN.keys.child(RUN.lead), target=RUN.helper, role="see"))
    assert judged(inside).problems == ()
    nowhere = replace(inside, content=b"{}", content_hash="0" * 64)
    assert judged(nowhere).problems == (f"RefArtifact {inside.key} cannot be read",)


def test_links_of_a_ticket_resolve_in_the_run() -> None:
    link = DiscoveryLink(report=RUN.keys.child(RUN.lead), entry="q")
    about: dict[str, Any] = {"title": "", "description": "", "dependencies": (), "acceptance_criteria": ()}
    ticket = to_record(
        PlanningTicket(RUN.keys.child(RUN.lead), tasks=(Task(id="t", discovery_links=(link,), **about),))
    )
    (unknown,) = judged(ticket).problems
    assert unknown.startswith(f"plan {ticket.key}: ")
    assert link.report.text in unknown
    (unreadable,) = judged(replace(ticket, content=b"{}")).problems
    assert f"PlanningTicket {ticket.key}" in unreadable
