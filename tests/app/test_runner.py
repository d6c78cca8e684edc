"""`run_workflow` and the runner: a file goes in, a sealed and verified run comes out."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import sapwood
from sapwood.app import open_store
from sapwood.app.project import open_project_store
from sapwood.app.runner import Runner, run_workflow
from sapwood.core.artifacts import Report
from sapwood.core.codec import from_record
from sapwood.core.workflow import AgentNode, Workflow
from sapwood.errors import InvalidInputs, InvalidWorkflow, NotFound, RunBusy, RunSealed
from sapwood.runtime.overview import NodeView, Overview
from sapwood.runtime.session import Store
from sapwood.settings import Settings
from tests.app.project import make_project

FLOW = """
name: feature
inputs: {topic: {type: string, required: true}}
nodes:
  draft: {kind: agent, template: tpl.agent.x.prompt, args: {topic: "${inputs.topic}"}, options: {script: answers.yaml}}
  check: {kind: command, run: [echo, fine]}
edges:
  - {from: draft, to: check}
"""
ANSWERS = "answers: {draft: [{report: a draft}]}"
GATE = """
name: ask
nodes:
  review: {kind: gate, ask: "Ship it?"}
  ship: {kind: agent, template: tpl.agent.x.prompt}
edges:
  - {from: review, to: ship, when: "decision == 'approved'"}
"""


def reports(store: Store, run: sapwood.ArtifactKey) -> dict[str, str]:
    with store.artifacts.read() as reader:
        found = [from_record(record) for record in reader.load_kinds(run, ["Report"])]
    return {str(one.node_key): one.text for one in found if isinstance(one, Report)}


def test_a_workflow_runs_to_a_sealed_and_verified_tree(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW, answers=ANSWERS)
    run = sapwood.run_workflow(project / "flow.yaml", inputs={"topic": "sap"}, project=project)
    with sapwood.open(project / ".sapwood" / "sapwood.db") as store:
        assert [(row.key, row.status) for row in store.runs()] == [(run, "completed")]
        assert store.verify(run).is_ok
        assert reports(store, run) == {"draft": "a draft", "check": "fine\n"}
    assert (project / ".sapwood" / ".gitignore").read_text() == "*\n"


def test_a_workflow_runs_from_inside_a_running_event_loop_too(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW, answers=ANSWERS)

    async def in_a_notebook() -> sapwood.ArtifactKey:
        return sapwood.run_workflow(project / "flow.yaml", inputs={"topic": "sap"}, project=project)

    run = asyncio.run(in_a_notebook())
    with sapwood.open(project / ".sapwood" / "sapwood.db") as store:
        assert [(row.key, row.status) for row in store.runs()] == [(run, "completed")]
        assert store.verify(run).is_ok


@pytest.mark.parametrize("url", ["memory:", "own.db"])
def test_an_open_store_stays_open(tmp_path: Path, url: str) -> None:
    project = make_project(tmp_path, FLOW, answers=ANSWERS)
    with open_store(url if url == "memory:" else tmp_path / url) as store:
        run = sapwood.run_workflow(project / "flow.yaml", inputs={"topic": "sap"}, store=store, project=project)
        assert store.verify(run).is_ok
        again = sapwood.run_workflow("single", {"task": "x"}, store, project)
        assert store.verify(again).is_ok


def test_what_is_wrong_is_said_before_anything_is_recorded(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW.replace("tpl.agent.x.prompt", "tpl.agent.x.promt"))
    with pytest.raises(
        InvalidWorkflow, match=r"flow\.yaml:5:\d+: unknown template .* did you mean 'tpl.agent.x.prompt'"
    ):
        run_workflow(project / "flow.yaml", project=project)
    (project / "flow.yaml").write_text(FLOW.replace("args: {topic:", "args: {topc:"))
    with pytest.raises(InvalidWorkflow, match="did you mean 'topic'"):
        run_workflow(project / "flow.yaml", project=project)
    (project / "templates" / "agent" / "x" / "prompt.jinja").write_text("{% if %}")
    with pytest.raises(InvalidWorkflow, match="cannot be used"):
        run_workflow(project / "flow.yaml", project=project)
    with pytest.raises(NotFound, match="did you mean 'single'"):
        run_workflow("singel", project=project)
    with pytest.raises(InvalidInputs, match="task is required"):
        run_workflow("single", project=project)
    assert not (project / ".sapwood").exists()
    with open_project_store(str(project / ".sapwood" / "sapwood.db")) as store:
        with pytest.raises(InvalidInputs, match="task is required"):
            run_workflow("single", project=project)
        assert store.runs() == []


def test_a_failed_run_has_a_key_and_its_status_in_the_store(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW, answers="answers: {draft: [{fail: no money}]}")
    run = run_workflow(project / "flow.yaml", {"topic": "sap"}, project=project)
    with sapwood.open(project / ".sapwood" / "sapwood.db") as store:
        assert store.runs()[0].status == "failed"
        assert store.verify(run).is_ok


def make_runner(project: Path) -> tuple[Store, Runner]:
    store = open_project_store(str(project / ".sapwood" / "sapwood.db"))
    return store, Runner(store, Settings(project=project))


def question_of(store: Store, runner: Runner, run: sapwood.ArtifactKey) -> NodeView:
    """Wait until a gate of the run asks; return it."""
    while not (waiting := [node for node in Overview(store).load(run).nodes if node.question]):
        assert runner.wait(run, 0.05) is None
    return waiting[0]


def test_a_run_that_was_left_is_interrupted_and_another_process_s_runner_finishes_it(tmp_path: Path) -> None:
    project = make_project(tmp_path, GATE)
    store, runner = make_runner(project)
    with store, runner:
        run = runner.start(runner.load(project / "flow.yaml"), {})
        question_of(store, runner, run)
    store, runner = make_runner(project)
    with store, runner:
        assert store.runs()[0].status == "interrupted"
        runner.resume(run)
        assert store.runs()[0].status == "running"
        other_store, other = make_runner(project)
        with other_store, pytest.raises(RunBusy):
            other.resume(run)
        assert question_of(store, runner, run).question == "Ship it?"
        assert runner.control.answer(run.text, "review", "approved", "me")
        assert runner.wait(run, 20) == "completed"
        assert store.verify(run).is_ok
        with pytest.raises(RunSealed):
            runner.resume(run)
        with pytest.raises(NotFound):
            runner.resume(store.keys.root())


@pytest.mark.parametrize("name", ["path_or_name", "inputs", "store", "project"])
@pytest.mark.parametrize("value", [7, b"x", ["a"], object()], ids=["number", "bytes", "list", "object"])
def test_an_argument_of_the_wrong_type_is_one_typed_error(tmp_path: Path, name: str, value: object) -> None:
    given: dict[str, Any] = {"path_or_name": "single", "inputs": {"task": "x"}, "project": tmp_path, name: value}
    with pytest.raises(sapwood.WrongArgument, match=f"argument {name} is"):
        sapwood.run_workflow(**given)
    assert list(tmp_path.iterdir()) == []


def test_a_paused_run_goes_on_after_resume(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW, answers="answers: {draft: [{report: a draft, delay_s: 0.5}]}")
    store, runner = make_runner(project)
    with store, runner:
        run = runner.start(runner.load(project / "flow.yaml"), {"topic": "x"})
        assert runner.wait(run, 0.25) is None  # the draft is being written
        assert runner.control.pause(run.text)
        assert runner.wait(run, 20) == "paused"
        assert list(reports(store, run)) == ["draft"]
        runner.resume(run)
        assert runner.wait(run, 20) == "completed"


def test_many_threads_may_wait_and_look_while_a_run_goes_on(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW, answers=ANSWERS)
    store, runner = make_runner(project)
    statuses: list[str | None] = []
    with store, runner:
        run = runner.start(Workflow(name="one", nodes=(AgentNode(key="a", template="tpl.agent.x.prompt"),)), {})
        threads = [threading.Thread(target=lambda: statuses.append(runner.wait(run, 20))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == ["completed"] * 4


NAMED = """
name: named
inputs: {topic: {type: string, default: "sap; rm -rf /"}}
nodes:
  say: {kind: command, run: [echo, "about ${inputs.topic}", "$${inputs.topic}"], env: {A: "${inputs.topic}"}}
  ask: {kind: gate, ask: "Ship ${inputs.topic}?"}
edges:
  - {from: say, to: ask}
"""


TRIED = """
name: tried
defaults: {provider: scripted, attempts: 2, backoff: {first_s: 60}}
nodes:
  draft: {kind: agent, template: tpl.agent.x.prompt, options: {answers: [{fail: overloaded}, {report: done}]}}
"""


def test_while_a_node_waits_for_its_next_try_everybody_can_see_why(tmp_path: Path) -> None:
    project = make_project(tmp_path, TRIED)
    store, runner = make_runner(project)
    with store, runner:
        run = runner.start(runner.load(project / "flow.yaml"), {})
        while (node := Overview(store).load(run).nodes[0]).attempts < 2:
            assert runner.wait(run, 0.05) is None
        assert (node.status, node.error, node.error_before) == ("running", None, "provider scripted: overloaded")
        runner.control.cancel(run.text)
        assert runner.wait(run, 20) == "cancelled"
        assert Overview(store).load(run).nodes[0].error_before is None


def test_commands_and_questions_name_the_inputs(tmp_path: Path) -> None:
    project = make_project(tmp_path, NAMED)
    store, runner = make_runner(project)
    with store, runner:
        run = runner.start(runner.load(project / "flow.yaml"), {})
        asks = question_of(store, runner, run)
        assert asks.question == "Ship sap; rm -rf /?"
        assert asks.answers == ("approved", "changes_requested")
        runner.control.answer(run.text, "ask", "approved", "me")
        assert runner.wait(run, 20) == "completed"
        assert reports(store, run)["say"] == "about sap; rm -rf / ${inputs.topic}\n"
