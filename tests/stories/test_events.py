"""The story of the 37 events: one run, from its workflow file to its seal, in whose tree each of them stands.

The runtime emits its own; the others, of interactive agents and user interfaces, come through the provider's stream.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sapwood.app.project import open_project_store
from sapwood.app.runner import Runner
from sapwood.core.artifacts import (
    AgentExecutionArtifacts,
    AgentRequest,
    EventArtifact,
    MessageStreamArtifact,
    RenderedPrompt,
    ToolCallArtifact,
    ToolInput,
)
from sapwood.core.codec import from_record
from sapwood.core.enrichment import check_enriched
from sapwood.core.event_artifacts import EVENT_TYPES
from sapwood.core.keys import ArtifactKey
from sapwood.runtime.session import Store
from sapwood.settings import Settings

FLOW = """
name: all-events
nodes:
  plan:    {kind: agent, template: tpl.agent.x.prompt, select: all, options: {script: answers.yaml}}
  flaky:   {kind: agent, template: tpl.agent.x.prompt, attempts: 2, backoff: {first_s: 0}, options: {script: answers.yaml}}
  never:   {kind: command, run: ["true"]}
  edit:    {kind: command, run: [sh, -c, "echo new > added.txt"], worktree: true}
  spoil:   {kind: command, run: [sh, -c, "echo x > spoilt.txt; exit 3"], worktree: true}
  tasks:   {kind: spawn, items: report.tasks, source: plan, each: {kind: command, run: [echo, "${item}"]}}
  review:  {kind: gate, ask: "Ship it?"}
  slow:    {kind: agent, template: tpl.agent.x.prompt, options: {script: answers.yaml}}
edges:
  - {from: plan, to: flaky}
  - {from: plan, to: edit}
  - {from: plan, to: never, when: "decision == 'blocked'"}
  - {from: edit, to: spoil}
  - {from: flaky, to: tasks}
  - {from: spoil, to: review, on: failure}
  - {from: tasks, to: review}
  - {from: review, to: slow, when: "decision == 'changes_requested'"}
"""

ANSWERS = """
answers:
  plan:
    - events:
        - {type: delta, text: "I think"}
        - {type: thought, text: "about it"}
        - {type: tool_call, name: grep, input: {pattern: x}, output: {hits: 3}}
        - {type: NodeDeletedEvent, reason: replaced}
        - {type: GuiRenderEvent, session_id: s, payload: {a: 1}}
        - {type: UiDiffAppliedEvent, session_id: s, revision: "2"}
        - {type: UiDiffRejectedEvent, session_id: s, error_code: stale}
        - {type: UiDiffRevertedEvent, session_id: s, revision: "1"}
        - {type: UiFeedbackEvent, session_id: s, message: nice}
        - {type: NodeBranchRequestedEvent, message: try both}
        - {type: PlanUpdateEvent, entries: [{content: step}]}
        - {type: UserMessageChunkEvent, content: please}
        - {type: CurrentModeUpdateEvent, current_mode_id: code}
        - {type: AvailableCommandsUpdateEvent, commands: [{name: test}]}
        - {type: PermissionRequestedEvent, request_id: r, permissions: [write]}
        - {type: PermissionResolvedEvent, request_id: r, outcome: allowed}
        - {type: UiStateSnapshot, session_id: s, revision: "2"}
      report: the plan
      data: {tasks: [one, two]}
  flaky: [{fail: overloaded}, {report: fine}]
  slow: [{report: never said, delay_s: 60}]
"""

THROUGH_THE_PROVIDER = {
    "NodeStreamDeltaEvent",
    "NodeThoughtDeltaEvent",
    "ToolCallEvent",
    "NodeDeletedEvent",
    "GuiRenderEvent",
    "UiDiffAppliedEvent",
    "UiDiffRejectedEvent",
    "UiDiffRevertedEvent",
    "UiFeedbackEvent",
    "NodeBranchRequestedEvent",
    "PlanUpdateEvent",
    "UserMessageChunkEvent",
    "CurrentModeUpdateEvent",
    "AvailableCommandsUpdateEvent",
    "PermissionRequestedEvent",
    "PermissionResolvedEvent",
    "UiStateSnapshot",
}


class Told(NamedTuple):
    """The run once it is over."""

    store: Store
    run: ArtifactKey
    project: Path

    def all_of(self, *kinds: type[Any]) -> list[Any]:
        with self.store.artifacts.read() as reader:
            return [from_record(one) for one in reader.load_kinds(self.run, [kind.__name__ for kind in kinds])]

    def events(self, kind: str) -> list[EventArtifact]:
        return [one for one in self.all_of(EventArtifact, MessageStreamArtifact) if one.type == kind]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    project = tmp_path_factory.mktemp("project")
    (project / "flow.yaml").write_text(FLOW)
    (project / "answers.yaml").write_text(ANSWERS)
    (project / "templates/agent/x").mkdir(parents=True)
    (project / "templates/agent/x/prompt.jinja").write_text("Do your part.")
    (project / ".gitignore").write_text(".sapwood/\n")
    git(project, "init", "-q")
    git(project, "add", "--all")
    git(project, "commit", "-qm", "first")
    with open_project_store(str(project / ".sapwood/sapwood.db")) as store:
        with Runner(store, Settings(project=project)) as runner:
            run = live(runner, project)
        yield Told(store, run, project)


def live(runner: Runner, project: Path) -> ArtifactKey:
    """Start the run, pause it and go on, answer its gate, and cancel it in the middle of its last call."""
    run = runner.open(runner.load(project / "flow.yaml"), {})
    runner.control.pause(run.text)
    runner.resume(run)
    control = runner.control
    wait_for(lambda: is_open(runner.store, run, "review"))
    assert control.answer(run.text, "review", "changes_requested", "me", "say it in fewer words")
    wait_for(lambda: is_prompted(runner.store, run, "slow"))
    control.cancel(run.text)
    assert runner.wait(run, 20) == "cancelled"
    return run


def is_open(store: Store, run: ArtifactKey, node: str) -> bool:
    with store.artifacts.read() as reader:
        return any(claim.node == node and claim.role == "delivery" for claim in reader.list_claims(run))


def is_prompted(store: Store, run: ArtifactKey, node: str) -> bool:
    """Tell whether the node's provider has been given its prompt; what an open scope has said is committed first."""
    store.flush()
    with store.artifacts.read() as reader:
        requests = [from_record(one) for one in reader.load_kinds(run, ["AgentRequest"])]
        keys = [one.key for one in requests if isinstance(one, AgentRequest) and one.node == node]
        return any(list(reader.load_kinds(key, ["RenderedPrompt"])) for key in keys)


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def git(project: Path, *words: str) -> str:
    who = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *who, *words], cwd=project, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("kind", sorted(EVENT_TYPES))
def test_the_event_stands_in_the_tree_below_its_node(told: Told, kind: str) -> None:
    found = told.events(kind)
    assert found, f"no {kind} was emitted"
    scopes = {one.node: one.key for one in told.all_of(AgentRequest)}
    for event in found:
        assert event.timestamp.endswith("Z")
        if kind in THROUGH_THE_PROVIDER:
            assert event.node_id == "plan"
            assert scopes["plan"].is_ancestor_of(event.key)
        elif event.node_id in scopes and kind != "NodeBranchedEvent":
            requests = [one.key for one in told.all_of(AgentRequest) if one.node == event.node_id]
            assert any(key.is_ancestor_of(event.key) for key in requests)


def test_there_are_37_and_the_record_verifies(told: Told) -> None:
    assert len(EVENT_TYPES) == 37
    assert told.store.verify(told.run).is_ok


def test_the_statuses_of_a_node_can_be_read_from_its_events(told: Told) -> None:
    def steps(node: str) -> list[tuple[str, str]]:
        changes = [one.payload for one in told.events("NodeStatusChangedEvent") if one.node_id == node]
        return [(one["old_status"], one["new_status"]) for one in changes]

    flaky = [("pending", "running"), ("running", "failed"), ("failed", "running"), ("running", "completed")]
    assert steps("flaky") == flaky
    assert steps("never") == [("pending", "skipped")]
    assert steps("slow") == [("pending", "running"), ("running", "cancelled")]


def test_branches_and_children_say_where_they_came_from(told: Told) -> None:
    branched = {(one.node_id, one.payload["original_node_id"]) for one in told.events("NodeBranchedEvent")}
    assert branched == {("flaky", "plan"), ("edit", "plan"), ("tasks.1", "tasks"), ("tasks.2", "tasks")}
    added = {one.node_id: one.payload["parent_node_id"] for one in told.events("NodeAddedEvent")}
    assert added["tasks.1"] == "tasks"
    assert added["plan"] is None


def test_every_request_of_the_run_was_enriched(told: Told) -> None:
    (agents,) = told.all_of(AgentExecutionArtifacts)
    requests = told.all_of(AgentRequest)
    assert len(requests) == 10
    for request in requests:
        check_enriched(request, agents.key)


def test_a_tool_call_is_recorded_with_what_went_in_and_out(told: Told) -> None:
    (call,) = told.all_of(ToolCallArtifact)
    (given,) = told.all_of(ToolInput)
    assert (call.tool, given.value, given.key.parent) == ("grep", {"pattern": "x"}, call.key)
    (plan,) = [one for one in told.all_of(AgentRequest) if one.node == "plan"]
    assert plan.key.is_ancestor_of(call.key)


def test_what_a_person_said_at_the_gate_is_handed_on(told: Told) -> None:
    (added,) = told.events("AddMessageEvent")
    assert (added.node_id, added.payload) == ("review", {"message": "say it in fewer words", "who": "me"})
    prompts = [one for one in told.all_of(RenderedPrompt) if "say it in fewer words" in one.text]
    assert len(prompts) == 1


def test_what_completed_in_a_worktree_is_merged_and_what_failed_is_gone(told: Told) -> None:
    assert (told.project / "added.txt").read_text() == "new\n"
    assert not (told.project / "spoilt.txt").exists()
    (merged,) = told.events("WorktreeMergedEvent")
    assert merged.payload["merge_commit_hash"] == git(told.project, "rev-parse", "HEAD").strip()
    assert git(told.project, "status", "--porcelain") == ""
    assert git(told.project, "branch", "--list", "sapwood/*") == ""
    assert git(told.project, "worktree", "list").count("\n") == 1
