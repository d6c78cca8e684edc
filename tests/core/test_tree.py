"""The tree of a run: any order in, one order out."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sapwood.core import tree as tree_module
from sapwood.core.artifacts import Execution, Note, RefArtifact
from sapwood.core.codec import to_record
from sapwood.core.keys import ArtifactKey
from sapwood.core.plans import DiscoveryLink, PlanningTicket, Task
from sapwood.core.record import Record
from sapwood.core.tree import ArtifactTree, check_complete, check_orphans
from sapwood.errors import DuplicateKey, NotFound, WrongArgument
from tests.conftest import Dose
from tests.core import values
from tests.core.trees import SmallRun

RUN = SmallRun()


def stored(key: ArtifactKey) -> bool:
    return key == RUN.template.key


def test_walk_is_depth_first_whatever_the_order_of_arrival() -> None:
    shuffled = list(RUN.records)
    random.Random(1).shuffle(shuffled)
    assert list(ArtifactTree(shuffled).walk()) == RUN.records
    one_by_one = ArtifactTree()
    for record in shuffled:
        one_by_one.add(record)
        assert len(list(one_by_one.walk())) == len(one_by_one)
    assert list(one_by_one.walk()) == RUN.records


@pytest.mark.torture(short=50, full=10_000)
def test_laws_of_the_tree(dose: Dose) -> None:
    @values.many(dose.count, dose.seed)
    @given(st.lists(values.keys, unique=True, max_size=30), st.randoms())
    def law(keys: list[ArtifactKey], rng: random.Random) -> None:
        more = {above for key in keys for above in ancestors(key) if rng.random() < 0.5}
        records = [to_record(Note(key, text="", content_type="text")) for key in {*keys, *more}]
        tree = ArtifactTree(records)
        assert [record.key for record in tree.walk()] == sorted(record.key for record in records)
        times = [(record.key.last_segment, record.key.text) for record in tree.timeline()]
        assert times == sorted(times)
        for record in records:
            below = [other for other in records if record.key == other.key or record.key.is_ancestor_of(other.key)]
            assert list(tree.walk(record.key)) == sorted(below)
            stored_above = [above for above in ancestors(record.key) if above in tree]
            assert tree.shown_under(record.key) == (stored_above[-1] if stored_above else None)
            if stored_above:
                assert record in tree.children(stored_above[-1])

    law()


def ancestors(key: ArtifactKey) -> list[ArtifactKey]:
    parts = key.segments
    return [ArtifactKey("ak:" + "/".join(parts[:count])) for count in range(1, len(parts))]


def test_the_first_record_of_a_key_stays() -> None:
    tree = ArtifactTree(RUN.records)
    second = replace(RUN.records[3], content=b"other")
    with pytest.raises(DuplicateKey) as caught:
        tree.add(second)
    assert caught.value.keys == (second.key.text,)
    assert tree.find(second.key) == RUN.records[3]
    with pytest.raises(DuplicateKey):
        ArtifactTree([*RUN.records, second])
    with pytest.raises(DuplicateKey):
        ArtifactTree([*RUN.records, RUN.records[3]])  # also the very same record
    with pytest.raises(DuplicateKey):
        tree.add(RUN.records[3])


def test_of_threads_that_add_the_same_keys_one_has_each_and_the_tree_is_whole() -> None:
    def add_all(text: bytes) -> list[Record]:
        added = []
        for record in RUN.records:
            own = replace(record, content=text)
            with suppress(DuplicateKey):
                tree.add(own)
                added.append(own)
            len(list(tree.walk())), tree.children(own.key)
        return added

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            tree = ArtifactTree()
            with ThreadPoolExecutor(4) as pool:
                added = [record for found in pool.map(add_all, [b"1", b"2", b"3", b"4"]) for record in found]
            assert list(tree.walk()) == sorted(added)
            assert [record.key for record in tree.walk()] == [record.key for record in RUN.records]
    finally:
        sys.setswitchinterval(usual)


def test_queries() -> None:
    tree = ArtifactTree(RUN.records)
    assert tree.root == RUN.records[0]
    assert RUN.lead in tree
    assert RUN.template.key not in tree
    assert [record.kind for record in tree.children(tree.root.key)] == [
        "ExecutionConfig",
        "InputArtifacts",
        "AgentExecutionArtifacts",
        "OutcomeEvidenceArtifacts",
        "Seal",
    ]
    assert [record.key for record in tree.of_kind("AgentRequest")] == [RUN.lead, RUN.helper]
    with pytest.raises(NotFound):
        _ = ArtifactTree().root


def test_what_is_no_key_is_in_no_tree_and_finds_nothing() -> None:
    tree = ArtifactTree(RUN.records)
    others: list[Any] = [RUN.lead.text, RUN.lead.pack(), None]
    for wrong in others:
        assert wrong not in tree
        for ask in (tree.find, tree.children, tree.shown_under):
            with pytest.raises(WrongArgument, match="expected an ArtifactKey"):
                ask(wrong)
    with pytest.raises(WrongArgument, match="argument under is 5; expected an ArtifactKey"):
        tree.walk(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [5, "x", None, RUN.lead, {}])
def test_a_tree_is_made_of_records_alone(wrong: Any) -> None:
    for make in (lambda: ArtifactTree([RUN.records[0], wrong]), lambda: ArtifactTree().add(wrong)):
        with pytest.raises(WrongArgument, match="as to_record gives"):
            make()
    for ask in (check_complete, check_orphans):
        with pytest.raises(WrongArgument, match="expected an ArtifactTree"):
            ask(wrong)
    with pytest.raises(WrongArgument, match="argument records is 5; expected Records"):
        ArtifactTree(5)  # type: ignore[arg-type]


def test_the_root_of_a_tree_has_a_key_of_one_segment() -> None:
    below_another = to_record(Note(ArtifactKey("ak:" + "0" * 26).child("0" * 26), text="", content_type="text"))
    assert ArtifactTree([below_another, *RUN.records]).root == RUN.records[0]
    with pytest.raises(NotFound):
        _ = ArtifactTree(RUN.records[1:]).root


def test_an_orphan_is_shown_under_its_nearest_stored_ancestor_and_is_no_failure() -> None:
    lost = RUN.keys.child(RUN.helper)
    orphan = to_record(Note(RUN.keys.child(lost), text="late", content_type="text"))
    tree = ArtifactTree([*RUN.records, orphan])
    assert tree.orphans() == [orphan]
    assert orphan in tree.children(RUN.helper)
    (finding,) = check_orphans(tree)
    assert (finding.code, finding.key, finding.is_failure) == ("orphan", orphan.key, False)


def test_without_its_root_all_that_stood_directly_below_it_is_an_orphan() -> None:
    tree = ArtifactTree([*without("Execution"), RUN.template])
    assert [record.key for record in tree.orphans()] == [one.key for one in RUN.records if one.key.depth == 2]
    assert {tree.shown_under(record.key) for record in tree.orphans()} == {None}


def test_siblings_with_the_same_kind_and_content_refer_to_the_first() -> None:
    keys = [RUN.keys.child(RUN.lead) for _ in range(3)]
    elsewhere = RUN.keys.child(RUN.helper)
    notes = [to_record(Note(key, text="same", content_type="text", artifact_id=9)) for key in [*keys, elsewhere]]
    assert ArtifactTree([*RUN.records, *notes]).repeats() == {keys[1]: keys[0], keys[2]: keys[0]}
    shared = [RUN.template, replace(RUN.template, key=RUN.keys.root())]
    assert ArtifactTree(shared).repeats() == {}, "what has no parent has no siblings"


def test_a_whole_run_is_complete() -> None:
    assert check_complete(ArtifactTree(RUN.records), stored) == []


def without(kind: str) -> list[Record]:
    return [record for record in RUN.records if record.kind != kind]


@pytest.mark.parametrize("kind", tree_module.REQUIRED_GROUPS)
def test_a_missing_and_a_doubled_group_are_found(kind: str) -> None:
    assert [finding.code for finding in check_complete(ArtifactTree(without(kind)), stored)] == ["required_group"]
    again = replace(next(record for record in RUN.records if record.kind == kind), key=RUN.keys.child(RUN.root))
    assert [found.code for found in check_complete(ArtifactTree([*RUN.records, again]), stored)] == ["required_group"]


def test_a_group_that_stands_elsewhere_is_missing() -> None:
    group = next(record for record in RUN.records if record.kind == "ExecutionConfig")
    moved = replace(group, key=RUN.keys.child(RUN.lead))
    (finding,) = check_complete(ArtifactTree([*without("ExecutionConfig"), moved]), stored)
    assert (finding.code, finding.key) == ("required_group", RUN.root)
    assert finding.message == "ExecutionConfig: 0 directly below the root; expected one"


def codes(records: list[Record], is_stored: Callable[[ArtifactKey], bool] = stored) -> set[str]:
    return {finding.code for finding in check_complete(ArtifactTree(records), is_stored)}


def test_a_wrong_root_is_found() -> None:
    assert codes(without("Execution")) == {"root"}
    assert "root" in codes([*RUN.records, RUN.template])
    after = replace(RUN.template, key=RUN.keys.root())
    assert RUN.root < after.key
    assert codes([*RUN.records, after]) == {"root"}
    assert codes([replace(RUN.records[0], kind="Note"), *RUN.records[1:]]) == {"root"}


def test_an_execution_that_is_no_root_is_none() -> None:
    lower = replace(RUN.records[0], key=RUN.root.child("0" * 26))
    findings = check_complete(ArtifactTree([*without("Execution"), lower]), stored)
    assert [(finding.code, finding.key) for finding in findings] == [("root", lower.key)] * 2
    assert "expected one Execution" in findings[0].message


def test_an_execution_below_the_root_is_found() -> None:
    second = to_record(Execution(RUN.keys.child(RUN.lead)))
    findings = check_complete(ArtifactTree([*RUN.records, second]), stored)
    assert [(finding.code, finding.key) for finding in findings] == [("root", second.key)]


def test_references_resolve_in_the_tree_or_outside_it() -> None:
    assert codes(RUN.records, lambda _: False) == {"dangling_reference"}
    inside = to_record(RefArtifact(RUN.keys.child(RUN.lead), target=RUN.helper, role="see"))
    assert codes([*RUN.records, inside]) == set()


def test_a_reference_that_cannot_be_read_is_found_and_the_others_are_still_looked_at() -> None:
    references = [place for place, record in enumerate(RUN.records) if record.kind == "RefArtifact"]
    assert len(references) == 2
    for place in references:
        broken = replace(RUN.records[place], content=b"{}")
        records = [*RUN.records[:place], broken, *RUN.records[place + 1 :]]
        found = [(finding.code, finding.key) for finding in check_complete(ArtifactTree(records))]
        other = next(RUN.records[one].key for one in references if one != place)
        assert sorted(found) == [("dangling_reference", other), ("unreadable", broken.key)]


def test_links_of_a_ticket_resolve_in_the_tree() -> None:
    link = DiscoveryLink(report=RUN.keys.child(RUN.lead), entry="q")
    about: dict[str, Any] = {"title": "", "description": "", "dependencies": (), "acceptance_criteria": ()}
    task = Task(id="t", discovery_links=(link,), **about)
    ticket = to_record(PlanningTicket(RUN.keys.child(RUN.lead), tasks=(task,)))
    assert codes([*RUN.records, ticket]) == {"unknown_report"}
    assert codes([*RUN.records, replace(ticket, content=b"{}")]) == {"unreadable"}


def test_an_empty_tree_is_no_run() -> None:
    with pytest.raises(NotFound):
        check_complete(ArtifactTree())


@pytest.mark.mutant
def test_a_gate_that_forgets_a_group_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_module, "REQUIRED_GROUPS", tree_module.REQUIRED_GROUPS[:-1])
    with pytest.raises(AssertionError):
        test_a_missing_and_a_doubled_group_are_found("OutcomeEvidenceArtifacts")
