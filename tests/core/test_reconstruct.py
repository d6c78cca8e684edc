"""A run told again from its tree alone, and every way in which the tree can be broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from sapwood.core import reconstruct as module
from sapwood.core.artifacts import AgentResult, EndStatus, Note, RefArtifact, Seal
from sapwood.core.codec import from_record, to_record
from sapwood.core.hashing import hash_bytes
from sapwood.core.plans import DiscoveryLink, DiscoveryReport, PlanningTicket, Task
from sapwood.core.rebuild import Rebuilt
from sapwood.core.reconstruct import Reconstruction, reconstruct
from sapwood.core.record import Record
from sapwood.core.seal import summarise
from sapwood.core.tree import REQUIRED_GROUPS, ArtifactTree
from sapwood.errors import TemplateError, TemplateLimit, TemplateNotRun, UndefinedValue, WrongArgument
from tests.core.trees import RENDERER, SmallRun, plain_render

RUN = SmallRun()


def told(records: list[Record], renderer: tuple[str, str] = RENDERER) -> Reconstruction:
    return reconstruct(ArtifactTree(records), plain_render, renderer, RUN.find_shared)


@pytest.mark.artifacts_reconstruct
def test_a_run_is_told_from_its_tree_alone() -> None:
    story = told(RUN.records)
    assert story.findings == []
    assert [prompt.is_rebuilt for prompt in story.prompts] == [True, True]
    assert [prompt.template_id for prompt in story.prompts] == ["tpl.agent.a"] * 2
    assert story.prompts[0].text == 'Context:\n[1] entry one\n[2] entry two\n\nDo {"x":1}\n\nmap of lead'
    assert [(use.tool, use.inputs, use.outputs) for use in story.tool_uses] == [
        ("grep", ({"pattern": "lead"},), (["line"],)),
        ("grep", ({"pattern": "helper"},), (["line"],)),
    ]
    assert [event.event_id for event in story.events] == ["lead-1", "lead-2", "helper-1", "helper-2"]
    assert [(outcome.name, outcome.passed) for outcome in story.outcomes] == [("tests", True)]
    assert story.timeline == [record.key for record in ArtifactTree(RUN.records).timeline()]


@pytest.mark.artifacts_reconstruct
def test_everything_an_agent_did_is_attributed_to_it_and_nothing_else_is() -> None:
    story = told(RUN.records)
    assert [(agent.node, agent.attempt, agent.parent, agent.status) for agent in story.agents] == [
        ("lead", 1, None, "completed"),
        ("helper", 1, RUN.lead, "completed"),
    ]
    for record in RUN.records:
        expected = next((key for key in (RUN.helper, RUN.lead) if record.key.text.startswith(key.text)), None)
        assert story.attribution.get(record.key) == expected
    assert [prompt.agent for prompt in story.prompts] == [RUN.lead, RUN.helper]


@pytest.mark.parametrize("wrong", [None, RUN.records, RUN.root])
def test_only_a_tree_can_be_told(wrong: Any) -> None:
    with pytest.raises(WrongArgument, match="expected an ArtifactTree"):
        reconstruct(wrong, plain_render, RENDERER)


def change(kind: str, change_one: Callable[[Record], Record | None]) -> list[Record]:
    """Return the records of the run, still open, with the first one of a kind changed or left out, its hash made right again."""
    changed: list[Record] = []
    done = False
    for record in RUN.unsealed:
        if record.kind == kind and not done:
            done = True
            other = change_one(record)
            if other is not None:
                changed.append(replace(other, content_hash=hash_bytes(other.content)))
            continue
        changed.append(record)
    return changed


def with_hash(record: Record, target_hash: str) -> Record:
    reference = from_record(record)
    assert isinstance(reference, RefArtifact)
    return to_record(RefArtifact(record.key, target=reference.target, role="template", target_hash=target_hash))


def codes(records: list[Record]) -> list[str]:
    return sorted(finding.code for finding in told(records).findings)


@pytest.mark.parametrize(
    ("kind", "change_one", "expected"),
    [
        ("RenderedPrompt", lambda record: replace(record, content=record.content + b"!"), ["prompt_mismatch"]),
        ("PromptContribution", lambda record: replace(record, content=b"other"), ["prompt_mismatch"]),
        ("PromptContribution", lambda record: None, ["prompt_mismatch"]),
        ("PromptArgs", lambda record: replace(record, content=b'{"x":2}'), ["prompt_mismatch"]),
        ("PromptArgs", lambda record: None, ["missing_args"]),
        ("RefArtifact", lambda record: None, ["missing_template"]),
        ("ToolInput", lambda record: replace(record, content=b"{"), ["unreadable"]),
        ("AgentRequest", lambda record: replace(record, content=b"[]"), ["unreadable"]),
        ("AgentRequests", lambda record: None, ["orphan"]),
        ("RefArtifact", lambda record: with_hash(record, "0" * 64), ["template_changed"]),
        ("RefArtifact", lambda record: with_hash(record, RUN.template.content_hash), []),
        ("ToolOutput", lambda record: replace(record, kind="ToolOutputV9"), []),
    ],
)
def test_what_is_broken_is_a_finding(
    kind: str, change_one: Callable[[Record], Record | None], expected: list[str]
) -> None:
    assert codes(change(kind, change_one)) == expected


def test_a_contribution_of_nobody_is_a_finding_and_the_rest_is_told() -> None:
    nameless = b'{"contributor":"","media":"text","order":1,"slot":"prompt"}'
    story = told(change("PromptContribution", lambda record: replace(record, metadata=nameless)))
    assert [(finding.code, finding.message) for finding in story.findings] == [
        ("render_failed", "PromptContribution: the contributor has no name: ''")
    ]
    assert [prompt.is_rebuilt for prompt in story.prompts] == [False, True]


def test_a_reference_that_a_prompt_has_beside_its_template_changes_nothing() -> None:
    prompt = next(record.key for record in RUN.unsealed if record.kind == "RenderedPrompt")
    other = replace(RUN.template, key=RUN.keys.root(), content=b"", content_hash=hash_bytes(b""))
    first = prompt.child("0" * 26)  # before the template's own
    see_also = to_record(RefArtifact(first, target=other.key, role="see"))
    shared = {record.key: record for record in (RUN.template, other)}
    story = reconstruct(ArtifactTree([*RUN.unsealed, see_also]), plain_render, RENDERER, shared.get)
    assert story.findings == []
    assert story.prompts[0].template_key == RUN.template.key


def test_a_prompt_whose_template_stands_in_the_run_is_rebuilt_from_it() -> None:
    records = change("RefArtifact", lambda record: replace(RUN.template, key=record.key))
    story = reconstruct(ArtifactTree(records), plain_render, RENDERER, RUN.find_shared)
    assert story.findings == []
    assert story.prompts[0].template_key == next(one.key for one in records if one.kind == "PromptTemplate")
    assert story.prompts[0].is_rebuilt


def test_a_prompt_with_two_templates_is_a_finding() -> None:
    first = next(record for record in RUN.unsealed if record.kind == "RefArtifact")
    second = replace(first, key=RUN.keys.child(first.key.parent or first.key))
    assert codes(sorted([*RUN.unsealed, second])) == ["two_templates"]


def test_a_sub_agent_whose_dispatch_is_lost_belongs_to_the_agent_it_is_shown_under() -> None:
    story = told([record for record in RUN.unsealed if record.kind != "AgentRequests"])
    assert [(agent.node, agent.parent) for agent in story.agents] == [("lead", None), ("helper", RUN.lead)]


def test_wrong_plans_are_findings() -> None:
    report = DiscoveryReport(
        RUN.keys.child(RUN.lead),
        file_references=(),
        cross_links=(),
        semantic_tags=(),
        generated_queries=(),
        diagrams=(),
    )
    link = DiscoveryLink(report=report.key, entry="nowhere")
    task = Task(id="t", title="", description="", dependencies=("t",), acceptance_criteria=(), discovery_links=(link,))
    ticket = PlanningTicket(RUN.keys.child(RUN.lead), tasks=(task,))
    story = told(sorted([*RUN.unsealed, to_record(report), to_record(ticket)]))
    assert [(finding.code, finding.key) for finding in story.findings] == [
        ("dependency_cycle", ticket.key),
        ("unknown_entry", ticket.key),
    ]


def test_changed_bytes_under_an_old_hash_are_found() -> None:
    for index, record in enumerate(RUN.unsealed):
        other = replace(record, content=record.content + b" ")
        found = told([*RUN.unsealed[:index], other, *RUN.unsealed[index + 1 :]]).findings
        assert ("hash_mismatch", record.key) in {(finding.code, finding.key) for finding in found}


def test_many_broken_things_are_all_told() -> None:
    broken = [record for record in RUN.unsealed if record.kind != "PromptArgs"]
    assert codes(broken) == ["missing_args", "missing_args"]


def test_a_mismatch_under_another_renderer_version_is_no_failure() -> None:
    records = change("RenderedPrompt", lambda record: replace(record, content=b"rendered otherwise"))
    (finding,) = told(records, ("plain", "2")).findings
    assert (finding.code, finding.is_failure) == ("renderer_changed", False)
    assert told(RUN.unsealed, ("plain", "2")).findings == []


def test_a_template_that_is_not_stored_or_was_changed_is_found() -> None:
    tree = ArtifactTree(RUN.unsealed)
    story = reconstruct(tree, plain_render, RENDERER)
    assert sorted({finding.code for finding in story.findings}) == ["dangling_reference", "missing_template"]
    assert [prompt.rebuilt for prompt in story.prompts] == [None, None]
    changed = replace(RUN.template, content=b"Do not {{ args }}")
    story = reconstruct(tree, plain_render, RENDERER, lambda key: changed)
    assert {finding.code for finding in story.findings} == {"hash_mismatch", "prompt_mismatch"}


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (replace(RUN.template, metadata=b'{"media":"text"}'), {"unreadable", "missing_template"}),
        (replace(RUN.records[0], key=RUN.template.key), {"missing_template"}),
    ],
    ids=["unreadable", "of another kind"],
)
def test_a_reference_to_what_is_no_template_version_is_found(other: Record, expected: set[str]) -> None:
    story = reconstruct(ArtifactTree(RUN.unsealed), plain_render, RENDERER, lambda key: other)
    assert {finding.code for finding in story.findings} == expected
    assert [(prompt.rebuilt, prompt.template_key) for prompt in story.prompts] == [(None, None)] * 2


def test_a_prompt_that_differs_says_from_where() -> None:
    lead = next(record for record in RUN.unsealed if record.kind == "RenderedPrompt").content
    for other, place in {
        b"?" + lead[1:]: "character 0",
        lead[:9] + b"?" + lead[10:]: "character 9",
        lead[:-1]: f"length ({len(lead) - 1} stored, {len(lead)} rebuilt)",
        lead + b"!": f"length ({len(lead) + 1} stored, {len(lead)} rebuilt)",
    }.items():
        records = change("RenderedPrompt", lambda record, other=other: replace(record, content=other))  # type: ignore[misc]
        (finding,) = told(records).findings
        assert finding.message == f"its parts give another text; they differ at {place}"
        (finding,) = told(records, ("plain", "2")).findings
        assert finding.message == f"rendered by plain 1, rebuilt by plain 2; differ at {place}"


def test_a_renderer_that_fails_is_a_finding() -> None:
    def fails(text: str, args_json: bytes, variables: tuple[str, ...], template_id: str | None) -> str:
        raise UndefinedValue("x is undefined", template_id=template_id)

    story = reconstruct(ArtifactTree(RUN.unsealed), fails, RENDERER, RUN.find_shared)
    assert [finding.code for finding in story.findings] == ["render_failed", "render_failed"]
    story = reconstruct(ArtifactTree(RUN.unsealed), fails, ("plain", "2"), RUN.find_shared)
    assert [(one.code, one.is_failure) for one in story.findings] == [("renderer_changed", False)] * 2


@pytest.mark.parametrize("error", [TemplateLimit, TemplateNotRun])
def test_a_prompt_that_cannot_be_rebuilt_here_is_no_failure(error: type[TemplateError]) -> None:
    def stopped(text: str, args_json: bytes, variables: tuple[str, ...], template_id: str | None) -> str:
        raise error("not on this machine", template_id=template_id)

    story = reconstruct(ArtifactTree(RUN.unsealed), stopped, RENDERER, RUN.find_shared)
    assert [(one.code, one.is_failure) for one in story.findings] == [("not_rebuilt", False)] * 2
    assert [prompt.is_rebuilt for prompt in story.prompts] == [False, False]


def test_an_orphan_is_told_and_is_no_failure() -> None:
    late = to_record(Note(RUN.keys.child(RUN.keys.child(RUN.helper)), text="late", content_type="text"))
    story = told(sorted([*RUN.unsealed, late]))
    assert [(finding.code, finding.is_failure) for finding in story.findings] == [("orphan", False)]
    assert story.attribution[late.key] == RUN.helper


def elsewhere(record: Record) -> Record:
    return replace(record, key=(record.key.parent or record.key).child("0" * 26))


DAMAGE: list[Callable[[Record], list[Record]]] = [
    lambda record: [],
    lambda record: [replace(record, content=b"{}", content_hash=hash_bytes(b"{}"))] if record.content != b"{}" else [],
    lambda record: [replace(record, metadata=b'{"new":1}')],
    lambda record: [replace(record, kind="KindOfTomorrow")],
    lambda record: [elsewhere(record)],
    lambda record: [record, elsewhere(record)],
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_whatever_is_done_to_an_artifact_of_a_sealed_run_is_found(damage: Callable[[Record], list[Record]]) -> None:
    for place, record in enumerate(RUN.unsealed):
        story = told([*RUN.records[:place], *damage(record), *RUN.records[place + 1 :]])
        assert any(finding.is_failure for finding in story.findings), record


def test_a_seal_is_compared_with_its_own_run_and_only_where_the_run_is_there() -> None:
    beside = [RUN.template, *RUN.records]
    part = [record for record in RUN.records if record.key == RUN.lead or RUN.lead.is_ancestor_of(record.key)]
    for records in (beside, part, RUN.records[-1:]):
        assert not [finding for finding in told(records).findings if finding.is_failure]
    second = replace(RUN.records[-1], key=RUN.keys.child(RUN.root))
    assert codes([*RUN.records, second]) == ["two_seals"]


@pytest.mark.parametrize("group", REQUIRED_GROUPS)
@pytest.mark.parametrize(("status", "found"), [("completed", ["required_group"]), ("failed", [])])
def test_a_run_sealed_as_completed_has_all_its_groups(group: str, status: EndStatus, found: list[str]) -> None:
    lacking = next(record.key for record in RUN.unsealed if record.kind == group)
    rest = [record for record in RUN.unsealed if record.key != lacking]
    summary = summarise(rest)
    sealed = to_record(Seal(RUN.seal.key, status=status, head=summary.head, counts=dict(summary.counts)))
    failures = [finding.code for finding in told([*rest, sealed]).findings if finding.is_failure]
    assert failures == found


def test_what_only_looks_like_the_seal_of_a_run_is_compared_with_nothing() -> None:
    seal = RUN.records[-1]
    nested = replace(seal, key=RUN.keys.child(RUN.helper))
    assert codes(sorted([*RUN.unsealed, nested])) == []
    assert codes([*RUN.unsealed, replace(seal, content=b"{}", content_hash=hash_bytes(b"{}"))]) == ["unreadable"]


def test_a_template_that_stands_beside_the_run_in_its_tree_is_found_there() -> None:
    story = reconstruct(ArtifactTree([RUN.template, *RUN.unsealed]), plain_render, RENDERER)
    assert story.findings == []
    assert [prompt.template_key for prompt in story.prompts] == [RUN.template.key] * 2


def test_how_an_agent_ended_is_its_own_result_and_not_that_of_one_below_it() -> None:
    def failed(record: Record) -> Record:
        is_helper = record.kind == "AgentResult" and RUN.helper.is_ancestor_of(record.key)
        return to_record(AgentResult(record.key, status="failed")) if is_helper else record

    story = told([failed(record) for record in RUN.unsealed])
    assert [(agent.node, agent.status) for agent in story.agents] == [("lead", "completed"), ("helper", "failed")]
    open_run = [one for one in RUN.unsealed if one.kind != "AgentResult" or not RUN.helper.is_ancestor_of(one.key)]
    assert [agent.status for agent in told(open_run).agents] == ["completed", None]


@pytest.mark.mutant
def test_a_comparison_that_always_agrees_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "rebuild_prompt", lambda prompt, *_: Rebuilt(prompt.text, None, ()))
    with pytest.raises(AssertionError):
        test_what_is_broken_is_a_finding(
            "RenderedPrompt", lambda record: replace(record, content=b"x"), ["prompt_mismatch"]
        )


def test_the_small_run_reads_back() -> None:
    for record in RUN.records:
        assert to_record(from_record(record)) == record
