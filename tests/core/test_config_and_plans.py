"""ExecutionConfig leaves nothing out in silence; a PlanningTicket's tasks hang together."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from sapwood.core.codec import from_record, read_content, to_record
from sapwood.core.config import CONFIG_FIELDS, ModelRef, ToolRef, execution_config
from sapwood.core.keys import ArtifactKey
from sapwood.core.plans import (
    Diagram,
    DiscoveryLink,
    DiscoveryReport,
    FileReference,
    GeneratedQuery,
    PlanningTicket,
    Task,
    check_plan,
    check_ticket,
)
from sapwood.errors import InvalidArtifact, WrongArgument

KEY = ArtifactKey("ak:01HQXK5V8RPZM4J3NHWGC7SDFG")
REPORT = DiscoveryReport(
    KEY,
    file_references=(FileReference("f1", path="a.py", lines="1-9", why="entry point"),),
    cross_links=(),
    semantic_tags=("api",),
    generated_queries=(),
    diagrams=(),
)


def test_what_was_not_given_is_null_with_a_reason() -> None:
    config = execution_config(KEY, {})
    assert config.why_absent == dict.fromkeys(CONFIG_FIELDS, "not given")
    assert all(getattr(config, name) is None for name in CONFIG_FIELDS)
    assert from_record(to_record(config)) == config


@pytest.mark.parametrize("value", ["prod", KEY.child("0" * 26).text])
def test_a_name_of_ours_that_is_no_field_of_a_configuration_is_kept_like_any_other(value: str) -> None:
    given = {"key": value, "kind": "k", "metadata": {"a": 1}, "unknown": 2}
    config = execution_config(KEY, given)
    assert config.key == KEY
    content = read_content(to_record(config))
    assert {name: content[name] for name in given} == given
    assert from_record(to_record(config)) == config


def test_what_was_given_is_kept_also_names_that_are_no_fields() -> None:
    given = {
        "models": ["m", {"name": "n", "temperature": 0}],
        "tools": {"grep": {"max": 3}},
        "policies": {"handoff": {"max_upstream_artifacts": 4}, "extra": 1},
        "workflow": {"text": "name: x", "sha256": "0" * 64},
        "repository_snapshot": None,
        "why_absent": {"repository_snapshot": "no repository"},
        "seed": 7,
    }
    config = execution_config(KEY, given)
    assert config.models == (ModelRef("m"), ModelRef("n", unknown={"temperature": 0}))
    assert config.tools == {"grep": {"max": 3}}
    assert config.unknown == {"seed": 7}
    assert isinstance(config.why_absent, dict)
    assert config.why_absent["repository_snapshot"] == "no repository"
    assert "models" not in config.why_absent
    assert from_record(to_record(config)) == config


@pytest.mark.parametrize(
    "given",
    [
        {"models": 7},
        {"models": [7]},
        {"tools": [{"limits": {}}]},
        {"policies": "strict"},
        {"why_absent": 3},
        {"why_absent": {"models": ""}},
        {"why_absent": {"models": " "}},
        {"why_absent": {"models": None}},
    ],
)
def test_a_wrong_shape_or_a_null_without_reason_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidArtifact):
        execution_config(KEY, given)


def task(name: str, *needs: str, links: tuple[DiscoveryLink, ...] = ()) -> Task:
    return Task(name, title="", description="", dependencies=needs, acceptance_criteria=(), discovery_links=links)


def codes(*tasks: Task) -> list[str]:
    return [finding.code for finding in check_ticket(PlanningTicket(KEY, tasks=tasks), {KEY: REPORT})]


def test_tasks_that_hang_together_have_no_findings() -> None:
    assert codes(task("a"), task("b", "a"), task("c", "a", "b", links=(DiscoveryLink(KEY, "f1"),))) == []


def test_what_does_not_hang_together_is_found() -> None:
    other = ArtifactKey("ak:01HQXK3M2NPZM4J3NHWGC7SABC")
    assert codes(task("a"), task("a")) == ["duplicate_task"]
    assert codes(task("a", "b")) == ["unknown_dependency"]
    assert codes(task("a", "a")) == ["dependency_cycle"]
    assert codes(task("a", "c"), task("b", "a"), task("c", "b"), task("d")) == ["dependency_cycle"]
    circle = PlanningTicket(KEY, tasks=(task("z", "m"), task("m", "a"), task("a", "z"), task("b")))
    assert [one.message for one in check_plan(circle)] == ["these tasks wait for each other or for a circle: a, m, z"]
    assert codes(task("a", links=(DiscoveryLink(KEY, "f2"),))) == ["unknown_entry"]
    assert codes(task("a", links=(DiscoveryLink(other, "f1"),))) == ["unknown_report"]


def test_a_configuration_with_all_its_fields_needs_no_reason() -> None:
    given = {**{name: {} for name in CONFIG_FIELDS}, "models": "m", "tools": "grep"}
    config = execution_config(KEY, {**given, "workflow": "single"})
    assert (config.models, config.tools) == ((ModelRef("m"),), (ToolRef("grep"),))
    assert config.why_absent == {}
    bare = msgspec.structs.replace(config, why_absent=UNSET)
    assert b"why_absent" not in to_record(bare).content
    with pytest.raises(InvalidArtifact, match=r"ExecutionConfig.loops: null without a reason in why_absent.loops"):
        msgspec.structs.replace(bare, loops=None)


@pytest.mark.parametrize("reason", [5, None, "", " \n", ["x"]])
def test_a_reason_is_words(reason: object) -> None:
    with pytest.raises(InvalidArtifact, match=r"null without a reason in why_absent.models"):
        execution_config(KEY, {"why_absent": {"models": reason}})


@pytest.mark.parametrize("wrong", [None, 5, "models", [("models", None)]])
def test_what_is_no_table_is_no_configuration(wrong: Any) -> None:
    with pytest.raises(WrongArgument, match=r"argument config is .*; expected a table"):
        execution_config(KEY, wrong)
    with pytest.raises(InvalidArtifact, match=r"ExecutionConfig.models: .*; expected None or dict or tuple"):
        msgspec.structs.replace(execution_config(KEY, {}), models=5)


@pytest.mark.parametrize("wrong", [None, 5, {"tasks": []}, REPORT])
def test_what_is_no_ticket_is_refused(wrong: Any) -> None:
    with pytest.raises(WrongArgument, match="expected a PlanningTicket"):
        check_ticket(wrong, {})
    with pytest.raises(WrongArgument, match="expected the DiscoveryReports by their keys"):
        check_ticket(PlanningTicket(KEY, tasks=()), [REPORT])  # type: ignore[arg-type]


def test_entries_of_a_report_and_tasks_of_a_ticket_have_ids_of_their_own() -> None:
    again = (GeneratedQuery("q", text="b"), GeneratedQuery("f1", text="a"), GeneratedQuery("q", text="c"))
    report = msgspec.structs.replace(REPORT, generated_queries=again, diagrams=(Diagram("d", language="x", text=""),))
    assert [(finding.code, finding.key, finding.message) for finding in check_plan(report)] == [
        ("duplicate_entry", KEY, "two entries have the id 'f1'"),
        ("duplicate_entry", KEY, "two entries have the id 'q'"),
    ]
    assert check_plan(REPORT) == check_plan("another thing") == []
    ticket = PlanningTicket(KEY, tasks=(task("z"), task("z"), task("a"), task("a"), task("b")))
    assert [finding.message for finding in check_plan(ticket)] == [
        "two tasks have the id 'a'",
        "two tasks have the id 'z'",
    ]


def test_a_long_chain_of_tasks_is_checked_in_a_moment() -> None:
    chain = [task(str(number), *([str(number - 1)] if number else [])) for number in range(20_000)]
    began = time.process_time()
    assert codes(*chain) == []
    assert time.process_time() - began < 3
