"""Facts about what came of a run, and the configuration it takes to do it again."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sapwood.clock import KeyFactory
from sapwood.core.artifacts import AgentResult, Delivery, EventArtifact, OutcomeEvidence, Report
from sapwood.core.config import ExecutionConfig, Policies
from sapwood.core.ingest_settings import IngestSettings
from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import CommandNode, Edge, GateNode, JoinNode, with_source
from sapwood.engine.boot import boot
from sapwood.errors import InvalidSettings, UnknownTokenizer
from sapwood.runtime.contextview import load_context
from sapwood.runtime.control import Control
from sapwood.runtime.run_config import RunPolicies, run_config
from sapwood.runtime.session import Store
from sapwood.runtime.start import open_run
from tests.runtime.world import (
    Provider,
    agent,
    all_of,
    chain,
    echo,
    make_executor,
    run_to_end,
    wait_for,
    workflow,
)


def events(store: Store, run: str, kind: str) -> list[Any]:
    return [one for one in all_of(store, run, EventArtifact) if one.type == kind]


def test_a_command_that_is_evidence_leaves_it_whether_it_passed_or_not(tmp_path: Path, store: Store) -> None:
    flow = workflow(
        CommandNode(key="test", run=("1", "red"), evidence="tests"),
        CommandNode(key="build", run=("0", "built"), evidence="build"),
        CommandNode(key="plain", run=("0", "nothing")),
        edges=[],
    )
    run, status = run_to_end(store, tmp_path, flow, Provider(echo))
    assert status == "failed"
    found = {one.name: one for one in all_of(store, run, OutcomeEvidence)}
    assert {name: one.passed for name, one in found.items()} == {"tests": False, "build": True}
    facts = found["tests"].evidence
    assert (facts["node"], facts["attempt"], facts["exit_code"], facts["command"]) == ("test", 1, 1, ["1", "red"])
    group = store.load(run).find(found["tests"].key.parent)
    assert group is not None
    assert group.kind == "OutcomeEvidenceArtifacts"


def test_a_gate_shows_its_question_and_leaves_who_answered_what_and_when(tmp_path: Path, store: Store) -> None:
    flow = workflow(
        agent("draft"), GateNode(key="review", ask="Ship it?"), edges=[Edge(source="draft", target="review")]
    )
    run = open_run(store, flow, {"task": "THE GOAL"}, {}).text
    with boot(tmp_path / "engine.db", make_executor(store, Provider(echo))) as engine:
        engine.submit(run)
        wait_for(lambda: len(all_of(store, run, Delivery)) == 2)
        Control(store.artifacts, KeyFactory()).answer(run, "review", "approved", "ada")
        assert engine.wait(run, 20) == "completed"
    (asked,) = events(store, run, "NodeReviewRequestedEvent")
    assert asked.payload["content_to_review"].splitlines() == [
        'goal: "THE GOAL"',
        'question: "Ship it?"',
        'options: ["approved","changes_requested"]',
        'state: {"draft":null}',
    ]
    (ack,) = all_of(store, run, OutcomeEvidence)
    (said,) = events(store, run, "ResolveInterruptEvent")
    assert (ack.name, ack.passed) == ("ack", True)
    assert (ack.evidence["who"], ack.evidence["answer"], ack.evidence["when"]) == ("ada", "approved", said.timestamp)
    assert said.key.parent.text == ack.evidence["request"]
    statuses = [one.payload["interrupt_status"] for one in events(store, run, "InterruptStatusEvent")]
    assert statuses == ["waiting", "resolved"]


def test_what_a_provider_proves_is_evidence_and_what_it_claims_wrongly_is_an_error(
    tmp_path: Path, store: Store
) -> None:
    def answer(facts: Any) -> Provider:
        return Provider(lambda _prompt, _options: ProviderResult(data={"evidence": facts}))

    facts = [{"name": "tests", "passed": True, "evidence": {"ran": 7}}, {"name": "lint", "passed": None}]
    run, status = run_to_end(store, tmp_path, chain("a"), answer(facts))
    assert status == "completed"
    found = all_of(store, run, OutcomeEvidence)
    assert [(one.name, one.passed, one.evidence["facts"]) for one in found] == [
        ("tests", True, {"ran": 7}),
        ("lint", None, None),
    ]
    run, status = run_to_end(store, tmp_path, chain("a"), answer([{"name": "tests", "passed": "yes"}]))
    assert status == "failed"
    assert "data.evidence[0]" in all_of(store, run, AgentResult)[0].error
    assert all_of(store, run, OutcomeEvidence) == []


def test_a_merge_is_summed_up_by_files_verdicts_and_risks(tmp_path: Path, store: Store) -> None:
    project = git_project(tmp_path)

    async def merge(_node: CommandNode, _folder: str) -> tuple[int, str]:
        (project / "new.py").write_text("x = 1\n")
        git(project, "add", "new.py")
        git(project, "commit", "-qm", "merged")
        return 0, "merged"

    data = {"open_risks": ["no tests"], "verdicts": {"review": "approved"}}
    flow = workflow(
        agent("build", phase=1),
        CommandNode(key="merge", run=("git", "merge"), evidence="merge"),
        edges=[Edge(source="build", target="merge")],
    )
    provider = Provider(lambda _prompt, _options: ProviderResult(data=data))
    run, status = run_to_end(store, tmp_path, flow, provider, project=project, run_command=merge)
    assert status == "completed"
    (found,) = all_of(store, run, OutcomeEvidence)
    summary = 'changed_files: ["new.py"]\nverdicts: {"review":"approved"}\nrisks: ["no tests"]'
    assert (found.name, found.passed, found.evidence["summary"]) == ("merge", True, summary)
    merged = all_of(store, run, AgentResult)[1]
    assert merged.serialize(for_="merge_summary") == summary


def test_the_end_says_how_the_goal_was_resolved(tmp_path: Path, store: Store) -> None:
    flow = workflow(CommandNode(key="test", run=("0", "green"), evidence="tests"), edges=[])
    run, _ = run_to_end(store, tmp_path, flow, Provider(echo), inputs={"goal": "GREEN"})
    (end,) = events(store, run, "GoalCompletedEvent")
    (fact,) = all_of(store, run, OutcomeEvidence)
    assert end.payload["final_summary"].splitlines() == [
        'goal: "GREEN"',
        'outcome: "completed"',
        f'evidence: ["{fact.key}"]',
    ]
    assert (end.payload["total_nodes_completed"], end.payload["total_nodes_failed"]) == (1, 0)


def test_a_join_shows_the_results_of_what_it_joins(tmp_path: Path, store: Store) -> None:
    flow = workflow(
        agent("left"),
        agent("right"),
        JoinNode(key="join"),
        edges=[Edge(source="left", target="join"), Edge(source="right", target="join")],
    )

    def answer(prompt: str, _options: ProviderRunOptions) -> ProviderResult:
        return ProviderResult(report=prompt.upper(), data={"score": 3} if prompt == "left" else {})

    run, _ = run_to_end(store, tmp_path, flow, Provider(answer))
    joined = next(one for one in all_of(store, run, Report) if one.node_key == "join")
    assert joined.text == '## left\n\nLEFT\n\nresult: {"score":3}\n\n## right\n\nRIGHT'
    assert all_of(store, run, AgentResult)[-1].result["results"] == {"left": {"score": 3}, "right": {}}


# the configuration


def test_the_configuration_names_all_that_it_takes_to_run_again(tmp_path: Path, store: Store) -> None:
    project = git_project(tmp_path)
    node = agent("a", options={"model": "m-1"}, tools=("grep",), system="tpl.agent.a.author")
    flow = workflow(node, agent("b"), edges=[Edge(source="a", target="b")])
    policies = RunPolicies({"max_chars_per_artifact": 9}, {"2": {"max_tokens": 7}}, ingest={"visible_names": False})
    flow = with_source(flow, "name: story")
    config = run_config(flow, store.templates, policies, project)
    run = open_run(store, flow, {}, config)
    (stored,) = all_of(store, run.text, ExecutionConfig)
    assert [(model.name, model.provider, model.role) for model in stored.models] == [
        ("m-1", "scripted", "a"),
        ("scripted", "scripted", "b"),
    ]
    assert [(tool.name, tool.available) for tool in stored.tools] == [("grep", True)]
    assert stored.repository_snapshot["kind"] == "git"
    assert stored.repository_snapshot["dirty"] is False
    assert isinstance(stored.policies, Policies)
    assert stored.policies.handoff["max_chars_per_artifact"] == 9  # type: ignore[index]
    assert stored.policies.budgets == {
        "phases": {
            "1": {"handoff_fields": None, "narrative_cap": 0, "max_tokens": 0},
            "2": {
                "handoff_fields": ["goal", "epic_id", "verdicts", "decisions_made", "open_risks"],
                "narrative_cap": 500,
                "max_tokens": 7,
            },
            "3": {
                "handoff_fields": ["goal", "epic_id", "verdicts", "artifacts_produced"],
                "narrative_cap": 1000,
                "max_tokens": 2500,
            },
        },
        "tokenizer": "chars/4",
    }
    ingest: Any = stored.policies.ingest
    assert IngestSettings.of(ingest) == IngestSettings(visible_names=False)
    assert ingest["limits"]["max_file_bytes"] == 10 * 1024 * 1024
    assert ".git" in ingest["deny_names"]
    assert stored.workflow.text == "name: story"
    assert sorted(stored.versions["templates"]) == ["tpl.agent.a", "tpl.agent.a.author", "tpl.agent.b"]
    assert stored.why_absent == {}
    with boot(tmp_path / "engine.db", make_executor(store, Provider(echo))) as engine:
        engine.submit(run.text)
        assert engine.wait(run.text, 20) == "completed"
    with store.artifacts.read() as reader:
        assert load_context(reader, run, "b").entries[0].included_chars == 9, "the run keeps the policy it began with"


@pytest.mark.parametrize(
    ("handoff", "phases", "why"),
    [
        ({"max_charz": 1}, {}, "handoff.max_charz"),
        ({"max_distance": -1}, {}, "handoff"),
        ({}, {"two": {}}, "phases.two"),
        ({}, {"2": 7}, "phases.2"),
        ({}, {"2": {"max_tokenz": 1}}, "max_tokenz"),
    ],
    ids=["bound", "number", "phase", "table", "field"],
)
def test_policies_that_are_none_are_refused_before_anything_runs(handoff: Any, phases: Any, why: str) -> None:
    with pytest.raises(InvalidSettings, match=re.escape(why)):
        RunPolicies(handoff, phases)


def test_a_tokenizer_that_is_not_there_is_refused_before_anything_runs(store: Store) -> None:
    with pytest.raises(UnknownTokenizer):
        run_config(chain("a"), store.templates, RunPolicies(tokenizer="nobody's"), None)


def git_project(folder: Path) -> Path:
    project = folder / "project"
    project.mkdir()
    git(project, "init", "-q")
    (project / "a.txt").write_text("a\n")
    git(project, "add", "a.txt")
    git(project, "commit", "-qm", "first")
    return project


def git(project: Path, *words: str) -> None:
    who = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=project, check=True, capture_output=True)
