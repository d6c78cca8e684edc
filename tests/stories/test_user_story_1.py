"""TREE's user story 1 through the runtime: a workflow runs, and its tree alone tells everything, scenario by scenario."""

from __future__ import annotations

import json
import subprocess

import msgspec
import pytest

import sapwood
from sapwood.core.artifacts import (
    AgentRequest,
    AgentRequests,
    PromptArgs,
    PromptContribution,
    RefArtifact,
    RenderedPrompt,
)
from sapwood.core.config import ExecutionConfig, WorkflowSource
from sapwood.core.record import Record
from sapwood.core.tree import REQUIRED_GROUPS, ArtifactTree
from tests.app.project import make_project
from tests.stories.flows import Story

pytestmark = pytest.mark.artifacts_reconstruct

AGENT = "kind: agent, template: tpl.agent.x.prompt, options: {script: answers.yaml}"
FLOW = f"""
name: team
inputs: {{topic: {{type: string, required: true}}}}
nodes:
  plan: {{{AGENT}, args: {{topic: "${{inputs.topic}}"}}, phase: 1, tools: [grep]}}
  tasks:
    kind: spawn
    items: report.items
    each: {{{AGENT}}}
  build: {{{AGENT}, phase: 2, attempts: 2, backoff: {{first_s: 0}}}}
  test: {{kind: command, run: [echo, 3 passed], evidence: tests}}
edges:
  - {{from: plan, to: tasks}}
  - {{from: tasks, to: build}}
  - {{from: build, to: plan, when: "decision == 'changes_requested'", max_loops: 2, priority: 1}}
  - {{from: build, to: test, priority: 2}}
"""
ANSWERS = json.dumps(
    {
        "answers": {
            "plan": [
                {
                    "report": "the plan",
                    "data": {"items": [{"name": "one"}, {"name": "two"}], "goal": "GOAL"},
                    "events": [{"type": "thought", "text": "hm"}, {"type": "delta", "text": "the plan"}],
                }
            ],
            "tasks.*": [{"report": "a part", "events": [{"type": "delta", "text": "a part"}]}],
            "build": [{"fail": "out of luck"}, {"report": "built", "decision": "approved"}],
        }
    }
)


@pytest.fixture
def run(story: Story) -> sapwood.ArtifactKey:
    make_project(story.project, FLOW)
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"]
        subprocess.run(["git", *identity, *words], cwd=story.project, check=True)
    key = story.run(FLOW, ANSWERS, topic="sap")
    assert story.status(key) == "completed"
    return key


def load(story: Story, run: sapwood.ArtifactKey) -> ArtifactTree:
    return story.store.load(run)


def below(tree: ArtifactTree, key: sapwood.ArtifactKey) -> list[Record]:
    return [record for record in tree.walk() if key.is_ancestor_of(record.key)]


def test_1_the_execution_contains_the_required_child_groups(story: Story, run: sapwood.ArtifactKey) -> None:
    tree = load(story, run)
    kinds = [record.kind for record in tree.children(run)]
    assert tree.root.kind == "Execution"
    assert [kind for kind in kinds if kind in REQUIRED_GROUPS] == list(REQUIRED_GROUPS)
    assert kinds[-1] == "Seal"


def test_2_a_rendered_prompt_has_its_template_version_and_its_arguments(story: Story, run: sapwood.ArtifactKey) -> None:
    prompts = [one for one in story.all(run, RenderedPrompt) if one.part == "user"]
    assert len(prompts) == 5  # plan, two tasks, build twice
    references, arguments = story.all(run, RefArtifact), story.all(run, PromptArgs)
    for prompt in prompts:
        (reference,) = [one for one in references if one.key.parent == prompt.key]
        (args,) = [one for one in arguments if one.key.parent == prompt.key]
        (template,) = story.store.load(reference.target).walk()
        text = template.content.decode()
        rendered = sapwood.render_template(text, args.args, trusted=True)
        assert rendered in prompt.text
    assert [one.args for one in arguments if one.args] == [{"topic": "sap"}]


def test_3_a_child_key_starts_with_its_parents_key_and_sorts_after_it(story: Story, run: sapwood.ArtifactKey) -> None:
    tree = load(story, run)
    for record in tree.walk():
        if record.key != run:
            assert record.key.parent is not None
            assert tree.find(record.key.parent) is not None
            assert record.key.text.startswith(f"{record.key.parent.text}/")
            assert record.key.parent.text < record.key.text


def test_4_the_configuration_holds_all_control_state(story: Story, run: sapwood.ArtifactKey) -> None:
    (config,) = story.all(run, ExecutionConfig)
    assert isinstance(config.models, tuple)
    assert {(model.name, model.role) for model in config.models} >= {("scripted", "plan"), ("scripted", "build")}
    assert isinstance(config.tools, tuple)
    assert [(tool.name, tool.available) for tool in config.tools] == [("grep", True)]
    assert [node["key"] for node in config.routing["graph"]["nodes"]] == ["plan", "tasks", "build", "test"]
    assert config.loops == {"build->plan": 2}
    assert isinstance(config.workflow, WorkflowSource)
    assert (config.workflow.text, config.workflow.sha256) == (FLOW, sapwood.hash_text(FLOW))
    assert config.policies is not None
    assert isinstance(config.policies.handoff, dict)
    assert config.policies.handoff["max_context_chars_total"] == 32_000
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=story.project, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert head in json.dumps(config.repository_snapshot)


def test_5_every_artifact_is_found_again_by_its_key_alone(story: Story, run: sapwood.ArtifactKey) -> None:
    for record in load(story, run).walk():
        with story.store.artifacts.read() as reader:
            assert reader.find(sapwood.ArtifactKey(record.key.text)) == record


def test_6_each_contributor_is_an_artifact_and_the_prompt_is_made_of_them(
    story: Story, run: sapwood.ArtifactKey
) -> None:
    parts = story.all(run, PromptContribution)
    call = story.call("build")
    (prompt,) = [one for one in story.all(run, RenderedPrompt) if one.part == "user" and call.prompt in one.text][-1:]
    own = [one for one in parts if one.key.parent == prompt.key]
    assert [(one.contributor, one.slot) for one in own] == [("phase_context", "prompt"), ("handoff", "context")]
    assert all(one.text in prompt.text for one in own)
    told = story.store.reconstruct(run)
    assert told.findings == []
    assert {one.is_rebuilt for one in told.prompts} == {True}


def test_7_the_event_stream_stands_in_the_tree_in_one_order(story: Story, run: sapwood.ArtifactKey) -> None:
    tree = load(story, run)
    kinds = ("EventArtifact", "MessageStreamArtifact")
    events = [record for record in tree.timeline() if record.kind in kinds]
    assert events == [record for record in story.store.load(run).timeline() if record.kind in kinds]
    types = [msgspec.json.decode(record.content)["type"] for record in events if record.kind == "EventArtifact"]
    assert (types[0], types[-1]) == ("NodeAddedEvent", "GoalCompletedEvent")
    assert {"NodeStatusChangedEvent", "NodeErrorEvent", "ActionStartedEvent", "ActionCompletedEvent"} <= set(types)
    streamed = [msgspec.json.decode(record.content) for record in events if record.kind == "MessageStreamArtifact"]
    assert sorted(event["payload"]["delta_content"] for event in streamed) == ["a part", "a part", "hm", "the plan"]


def test_8_each_sub_agent_has_its_own_nested_subtree(story: Story, run: sapwood.ArtifactKey) -> None:
    tree = load(story, run)
    requests = {one.node: one.key for one in story.all(run, AgentRequest)}
    (dispatch,) = story.all(run, AgentRequests)
    assert requests["tasks"].is_ancestor_of(dispatch.key)
    children = [requests["tasks.one"], requests["tasks.two"]]
    assert all(dispatch.key.is_ancestor_of(key) for key in children)
    for key in children:
        kinds = {record.kind for record in below(tree, key)}
        assert {"Delivery", "RenderedPrompt", "AgentResult", "Report"} <= kinds
    told = story.store.reconstruct(run)
    for record in tree.of_kind("Report"):
        owner = told.attribution[record.key]
        assert msgspec.json.decode(record.metadata)["node_key"] == next(n for n, k in requests.items() if k == owner)
