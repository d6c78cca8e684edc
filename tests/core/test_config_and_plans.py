"""ExecutionConfig leaves nothing out in silence; a PlanningTicket's tasks hang together."""

from __future__ import annotations

import time

import pytest

from sapwood.core.codec import from_record, read_content, to_record
from sapwood.core.config import CONFIG_FIELDS, ModelRef, execution_config
from sapwood.core.keys import ArtifactKey
from sapwood.core.plans import (
    DiscoveryLink,
    DiscoveryReport,
    FileReference,
    PlanningTicket,
    Task,
    check_ticket,
)
from sapwood.errors import InvalidArtifact

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
    assert codes(task("a", links=(DiscoveryLink(KEY, "f2"),))) == ["unknown_entry"]
    assert codes(task("a", links=(DiscoveryLink(other, "f1"),))) == ["unknown_report"]


def test_a_long_chain_of_tasks_is_checked_in_a_moment() -> None:
    chain = [task(str(number), *([str(number - 1)] if number else [])) for number in range(20_000)]
    began = time.process_time()
    assert codes(*chain) == []
    assert time.process_time() - began < 3
