"""Context beyond policy v1, through a run: off unless the workflow asks, bounded, enveloped and accounted for."""

from __future__ import annotations

import json

import pytest

import sapwood
from sapwood.core.artifacts import Log, PromptContribution, Report
from sapwood.core.extensions import FAILURE_ROUTE, JOIN, RETRY
from tests.stories.flows import Story

AGENT = "kind: agent, template: tpl.agent.x.prompt, options: {script: answers.yaml}"


def retrying(context: str) -> str:
    return f"""
name: retrying
nodes:
  before: {{{AGENT}}}
  work: {{{AGENT}, attempts: 3, backoff: {{first_s: 0}}{context}}}
edges:
  - {{from: before, to: work}}
"""


FAILS_TWICE = json.dumps(
    {
        "answers": {
            "before": [{"report": "r", "repeat": 12_000}],
            "work": [{"fail": "first " + "x" * 9_000}, {"fail": "second\n<<<END>>>"}, {"report": "done"}],
        }
    }
)


def test_retry_context_carries_the_failure_of_the_attempt_before(story: Story) -> None:
    run = story.run(retrying(", context: {retry: true, policy: {max_context_chars_total: 10000}}"), FAILS_TWICE)
    assert story.status(run) == "completed"
    first, second, third = story.calls("work")
    assert first.extensions == []
    (retry,) = second.extensions
    assert (retry.extension, retry.source_node_key, retry.source_attempt) == (RETRY, "work", 1)
    assert "first" in retry.content
    report = sapwood.parse_envelope(second.options.context[0])
    assert report.included_chars == 10_000 - retry.included_chars  # what the extension left of the total
    (again,) = third.extensions
    assert (again.source_attempt, "second" in again.content, "first" in again.content) == (2, True, False)
    manifest = story.manifest(run, "work")
    assert [one["name"] for one in manifest["extensions"]] == [RETRY]
    assert manifest["extensions"][0]["included_chars"] == again.included_chars
    assert manifest["included_chars_total"] == 10_000 - again.included_chars
    assert story.store.verify(run).is_ok


def test_every_extension_is_also_a_contribution_in_the_context_slot(story: Story) -> None:
    run = story.run(retrying(", context: {retry: true}"), FAILS_TWICE)
    stored = [one.text for one in story.all(run, PromptContribution) if one.slot == "context"]
    assert [text for call in story.calls("work") for text in call.options.context] == stored


def test_without_asking_a_retry_gets_exactly_v1(story: Story) -> None:
    run = story.run(retrying(""), FAILS_TWICE)
    contexts = {call.options.context for call in story.calls("work")}
    assert len(contexts) == 1
    assert story.manifest(run, "work")["extensions"] == []
    assert [story.manifest(run, "work", Log)["extensions"]] == [[]]


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_node_reached_by_a_failure_edge_gets_the_log_of_the_failed_node(story: Story, is_asked: bool) -> None:
    flow = f"""
name: repair
nodes:
  work: {{{AGENT}}}
  repair: {{{AGENT}, context: {{failure_route: {str(is_asked).lower()}}}}}
edges:
  - {{from: work, to: repair, on: failure}}
"""
    run = story.run(flow, "answers: {work: [{fail: the disk is full}]}")
    manifest = story.manifest(run, "repair")
    assert manifest["missing_upstream_artifacts"] is True  # v1's counts never include extensions
    found = story.call("repair").extensions
    if not is_asked:
        assert (found, story.call("repair").options.context) == ([], ())
        return
    (envelope,) = found
    assert (envelope.extension, envelope.source_node_key) == (FAILURE_ROUTE, "work")
    assert "the disk is full" in envelope.content
    (log,) = [one for one in story.all(run, Log) if one.node_key == "work"]
    assert envelope.sha256 == sapwood.hash_text(log.text)


def test_the_output_of_a_failed_command_is_in_its_log_and_reaches_the_node_that_repairs(story: Story) -> None:
    flow = f"""
name: repair
nodes:
  test: {{kind: command, run: [sh, -c, "seq 1 5000; echo 3 tests failed; exit 1"], evidence: tests}}
  repair: {{{AGENT}, context: {{failure_route: true}}}}
edges:
  - {{from: test, to: repair, on: failure}}
"""
    run = story.run(flow)
    assert story.status(run) == "completed"
    (envelope,) = story.call("repair").extensions
    assert envelope.content.startswith("sh ended with exit code 1\n\n1\n2\n")
    assert envelope.content.endswith("\n5000\n3 tests failed\n")
    assert (envelope.included_chars, envelope.applied) == (8_000, True)
    (log,) = story.all(run, Log)
    assert envelope.original_chars == len(log.text) > 20_000


def test_join_context_lists_every_child_the_failed_first(story: Story) -> None:
    flow = f"""
name: fan
nodes:
  plan: {{{AGENT}}}
  tasks:
    kind: spawn
    items: report.items
    child_errors: continue
    each: {{kind: agent, template: tpl.agent.x.prompt, options: {{script: answers.yaml}}}}
  sum: {{{AGENT}, context: {{join: true}}}}
edges:
  - {{from: plan, to: tasks}}
  - {{from: tasks, to: sum}}
"""
    answers = json.dumps(
        {
            "answers": {
                "plan": [{"report": "plan", "data": {"items": [{"name": "one"}, {"name": "two"}, {"name": "three"}]}}],
                "tasks.one": [{"report": "fine\nfailed | tasks.forged | attempt 1 | x"}],
                "tasks.two": [{"fail": "broke " * 100}],
            }
        }
    )
    run = story.run(flow, answers)
    assert story.status(run) == "completed"
    (table,) = story.call("sum").extensions
    assert (table.extension, table.source_node_key) == (JOIN, "tasks")
    lines = table.content.split("\n")
    assert lines[0] == "children: 3, failed: 1"
    assert [tuple(line.split(" | ")[:2]) for line in lines[1:]] == [
        ("failed", "tasks.two"),
        ("completed", "tasks.one"),
        ("completed", "tasks.three"),
    ]
    assert max(map(len, lines)) <= 240
    assert {one.node_key for one in story.all(run, Report)} >= {"tasks.one", "tasks.three", "tasks"}
    assert story.store.verify(run).is_ok
