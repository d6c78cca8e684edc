"""Phases through a run: what each hands on, what the next one sees of it, the budget, and the fallback without any."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import sapwood
from sapwood.core.artifacts import BudgetResult, PhaseHandoff, PromptContribution
from sapwood.core.phases import END_LINE, TITLE
from sapwood.runtime.budgetlog import LOG_PATH
from tests.stories.flows import Story

AGENT = "kind: agent, template: tpl.agent.x.prompt, options: {script: answers.yaml}"


def flow(head: str = "", **phases: str) -> str:
    """Return a chain of nodes, each with the given fields, such as `phase: 1`."""
    nodes = "".join(f"  {name}: {{{AGENT}{fields}}}\n" for name, fields in phases.items())
    edges = "".join(f"  - {{from: {a}, to: {b}}}\n" for a, b in pairwise(phases))
    return f"name: phases\n{head}nodes:\n{nodes}" + (f"edges:\n{edges}" if edges else "")


THREE = flow(discovery=", phase: 1", build=", phase: 2", validate=", phase: 3")
PLANNED = {
    "goal": "GOAL",
    "epic_id": "EPIC",
    "verdicts": {"council": "WARN"},
    "artifacts_produced": ["docs/plan.md"],
    "decisions_made": ["DECIDED"],
    "open_risks": ["RISK"],
    "narrative": "N" * 2_000,
}


def answers(**by_node: list[dict[str, Any]]) -> str:
    return json.dumps({"answers": by_node})


def test_each_phase_sees_what_its_manifest_selects_of_the_phases_before(story: Story) -> None:
    built = {"verdicts": {"tests": "PASS"}, "artifacts_produced": ["src/a.py"], "narrative": "BUILT"}
    run = story.run(
        THREE, answers(discovery=[{"report": "r", "data": PLANNED}], build=[{"report": "b", "data": built}])
    )
    assert story.status(run) == "completed"
    assert TITLE not in story.call("discovery").prompt
    build = story.call("build").prompt
    for words in (TITLE, "Goal: GOAL", "Epic: EPIC", "council: WARN", "DECIDED", "RISK", "N" * 497 + "...", END_LINE):
        assert words in build
    assert "docs/plan.md" not in build
    validate = story.call("validate").prompt
    for words in ("GOAL", "council: WARN", "tests: PASS", "docs/plan.md", "src/a.py", "N" * 997 + "...", "BUILT"):
        assert words in validate
    assert "DECIDED" not in validate
    assert story.store.verify(run).is_ok


def test_a_phase_ends_with_one_handoff_whose_verdicts_are_merged_and_later_ones_win(story: Story) -> None:
    later = {"verdicts": {"council": "PASS"}}
    run = story.run(
        THREE,
        answers(
            discovery=[{"report": "r", "data": PLANNED}], build=[{"report": "b", "data": later, "decision": "approved"}]
        ),
    )
    first, second, third = story.all(run, PhaseHandoff)
    assert [one.phase for one in (first, second, third)] == [1, 2, 3]
    assert first.verdicts == {"council": "WARN"}
    assert second.verdicts == third.verdicts == {"build": "approved", "council": "PASS"}
    assert {one.run_id for one in (first, second, third)} == {run.text}
    assert second.goal == "GOAL"


def test_the_files_that_a_phase_wrote_complete_what_it_produced(story: Story) -> None:
    writing = flow(build=", phase: 2, output: docs/build.md, ingest: true")
    document = "# Built\n\n```python file=src/a.py\nprint(1)\n```\n"
    run = story.run(writing, answers(build=[{"report": document, "data": {"artifacts_produced": ["by hand"]}}]))
    assert (story.project / "docs" / "build.md").read_text() == document
    assert (story.project / "workspace" / "src" / "a.py").read_text() == "print(1)\n"
    (handoff,) = story.all(run, PhaseHandoff)
    assert handoff.artifacts_produced == ("by hand", "docs/build.md", "workspace/src/a.py")


def test_the_budget_cuts_and_leaves_a_result_in_the_tree_and_a_line_in_the_log(story: Story) -> None:
    tight = flow("phases: {2: {max_tokens: 60}}\n", discovery=", phase: 1", build=", phase: 2")
    run = story.run(tight, answers(discovery=[{"report": "r", "data": {**PLANNED, "goal": "word " * 200}}]))
    (result,) = story.all(run, BudgetResult)
    assert (result.phase, result.node, result.budget_tokens, result.estimator) == (2, "build", 60, "chars/4")
    assert result.truncated_tokens <= 60 < result.original_tokens
    assert result.was_truncated is True
    (text,) = [one.text for one in story.all(run, PromptContribution) if one.contributor == "phase_context"]
    body = text.removesuffix(f"\n\n{END_LINE}")
    assert sapwood.estimate_tokens(body) == result.truncated_tokens
    assert text in story.call("build").prompt
    (line,) = (story.project / LOG_PATH).read_text().splitlines()
    logged = json.loads(line)
    assert list(logged) == [
        "run_id",
        "phase",
        "original_tokens",
        "budget_tokens",
        "truncated_tokens",
        "was_truncated",
        "ts",
    ]
    assert (logged["run_id"], logged["original_tokens"]) == (run.text, result.original_tokens)


def test_an_exact_tokenizer_of_the_project_is_named_in_the_result(story: Story) -> None:
    story.run(THREE)
    (story.project / "sapwood.toml").write_text('tokenizer = "o200k_base"\n')
    run = story.run(THREE, answers(discovery=[{"report": "r", "data": PLANNED}]))
    assert {one.estimator for one in story.all(run, BudgetResult)} == {"o200k_base"}


def test_without_any_handoff_the_latest_earlier_report_takes_its_place_under_the_same_manifest(story: Story) -> None:
    legacy = flow(first="", second="", build=", phase: 2")
    run = story.run(legacy, answers(first=[{"report": "OLD"}], second=[{"report": "S" * 900}]))
    prompt = story.call("build").prompt
    assert "S" * 497 + "..." in prompt
    assert "S" * 498 not in prompt
    assert "OLD" not in prompt
    assert [one.phase for one in story.all(run, PhaseHandoff)] == [2]


def test_with_a_handoff_there_is_no_fallback(story: Story) -> None:
    mixed = flow(discovery=", phase: 1", between="", build=", phase: 2")
    story.run(
        mixed, answers(discovery=[{"report": "r", "data": {"narrative": "HANDED ON"}}], between=[{"report": "B"}])
    )
    prompt = story.call("build").prompt
    assert "HANDED ON" in prompt
    assert "Narrative:\nB" not in prompt


def test_handoffs_of_another_run_never_leak_in(story: Story) -> None:
    story.run(THREE, answers(discovery=[{"report": "r", "data": {"goal": "FIRST RUN"}}]))
    story.run(THREE, answers(discovery=[{"report": "r", "data": {"goal": "SECOND RUN"}}]))
    assert "FIRST RUN" not in story.call("build").prompt
    assert "SECOND RUN" in story.call("build").prompt


def test_a_phase_that_ran_twice_is_seen_once_with_its_latest_end(story: Story) -> None:
    looping = f"""
name: loop
nodes:
  discovery: {{{AGENT}, phase: 1}}
  build: {{{AGENT}, phase: 2}}
  validate: {{{AGENT}, phase: 3}}
edges:
  - {{from: discovery, to: build}}
  - {{from: build, to: validate}}
  - {{from: validate, to: build, when: "decision == 'changes_requested'", max_loops: 2}}
"""
    run = story.run(
        looping,
        answers(
            build=[{"report": "b", "data": {"narrative": "FIRST"}}, {"report": "b", "data": {"narrative": "SECOND"}}],
            validate=[{"report": "no", "decision": "changes_requested"}, {"report": "yes", "decision": "approved"}],
        ),
    )
    assert story.status(run) == "completed"
    first, last = story.calls("validate")
    assert "FIRST" in first.prompt
    assert ("FIRST" in last.prompt, "SECOND" in last.prompt) == (False, True)
    assert last.prompt.count("## Phase 2") == 1
    assert "## Phase 3" not in story.calls("build")[1].prompt  # a later phase is not an earlier one
