"""Graphs inside graphs: fan-out, sub-workflows and files, recorded inside the one tree of the run."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sapwood.core.artifacts import (
    AgentRequest,
    AgentRequests,
    AgentResult,
    Delivery,
    PromptArgs,
    RenderedPrompt,
    Report,
)
from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import (
    AgentNode,
    Backoff,
    CommandNode,
    Edge,
    GateNode,
    Input,
    JoinNode,
    SpawnNode,
    Workflow,
    WorkflowNode,
    WriteFileNode,
)
from sapwood.engine.boot import boot
from sapwood.errors import ProviderFailed
from sapwood.runtime.control import Control
from sapwood.runtime.session import Store
from tests.runtime.world import (
    Provider,
    agent,
    all_of,
    begin,
    chain,
    echo,
    finish_and_verify,
    make_executor,
    wait_for,
    workflow,
)


def planned(items: list[Any]) -> Any:
    def answer(prompt: str, options: ProviderRunOptions) -> ProviderResult:
        return ProviderResult(report=f"report of {options.node}", data={"items": items} if prompt == "plan" else {})

    return answer


def spawn(key: str = "tasks", **more: Any) -> SpawnNode:
    return SpawnNode(key=key, each=more.pop("each", agent(key)), **more)


def planned_flow(**more: Any) -> Workflow:
    edges = [Edge(source="plan", target="tasks"), Edge(source="tasks", target="join")]
    return workflow(agent("plan"), spawn(**more), JoinNode(key="join"), edges=edges)


def requests_of(store: Store, run: str) -> dict[str, AgentRequest]:
    return {f"{one.node}.{one.attempt}": one for one in all_of(store, run, AgentRequest)}


# spawn


def test_a_spawn_runs_one_child_for_each_item_and_a_join_gathers_their_reports(tmp_path: Path, store: Store) -> None:
    run = begin(store, planned_flow())
    provider = Provider(planned([{"name": "a"}, {"name": "b"}, "third"]))
    assert finish_and_verify(store, tmp_path, run, provider) == "completed"
    reports = {one.node_key: one for one in all_of(store, run, Report)}
    assert reports["join"].text == "\n\n".join(f"## tasks.{n}\n\nreport of tasks.{n}" for n in ("a", "b", "3"))
    lines = reports["tasks"].text.splitlines()
    assert lines[0] == "children: 3, failed: 0"
    assert lines[1] == "completed | tasks.a | attempt 1 | report of tasks.a"
    result = next(one for one in all_of(store, run, AgentResult) if "children" in one.result)
    assert list(result.result["children"]) == ["3", "a", "b"]
    assert (result.result["completed"], result.result["failed"]) == (3, 0)


def test_every_fanned_out_request_stands_below_its_container(tmp_path: Path, store: Store) -> None:
    run = begin(store, planned_flow())
    assert finish_and_verify(store, tmp_path, run, Provider(planned([{"name": "a"}, {"name": "b"}]))) == "completed"
    (container,) = all_of(store, run, AgentRequests)
    requests = requests_of(store, run)
    assert container.key.parent == requests["tasks.1"].key
    assert container.names == ("a", "b")
    assert container.items == [{"name": "a"}, {"name": "b"}]
    assert {requests["tasks.a.1"].key.parent, requests["tasks.b.1"].key.parent} == {container.key}
    for prompt in all_of(store, run, RenderedPrompt):
        assert any(one.key.is_ancestor_of(prompt.key) for one in requests.values())


def test_a_child_is_given_its_item(tmp_path: Path, store: Store) -> None:
    each = AgentNode(key="tasks", template="tpl.agent.task", args={"part": "${item.brief}", "n": "${index}-${name}"})
    flow = Workflow(
        name="story",
        nodes=(SpawnNode(key="tasks", each=each, items="inputs.parts"),),
        inputs=(Input(name="parts", type="list"),),
    )
    run = begin(store, flow, parts=[{"name": "x y.z", "brief": "one"}, {"name": "x y.z", "brief": "two"}])
    assert finish_and_verify(store, tmp_path, run, Provider(echo)) == "completed"
    found = sorted((one.args["part"], one.args["n"]) for one in all_of(store, run, PromptArgs) if one.args)
    assert found == [("one", "1-x-y-z"), ("two", "2-x-y-z-2")]


def test_children_never_work_in_greater_number_than_parallel(tmp_path: Path, store: Store) -> None:
    class Counting(Provider):
        now = most = 0

        async def run(self, prompt: str, options: ProviderRunOptions) -> Any:
            self.now += prompt == "tasks"
            self.most = max(self.most, self.now)
            await asyncio.sleep(0.05)
            self.now -= prompt == "tasks"
            async for item in super().run(prompt, options):
                yield item

    provider = Counting(planned(list(range(9))))
    run = begin(store, planned_flow(parallel=3))
    assert finish_and_verify(store, tmp_path, run, provider) == "completed"
    assert provider.most == 3
    assert len(all_of(store, run, AgentRequest)) == 12


@pytest.mark.parametrize(("child_errors", "status"), [("fail", "failed"), ("continue", "completed")])
def test_a_child_that_fails_for_good_fails_the_spawn_unless_it_may_go_on(
    tmp_path: Path, store: Store, child_errors: str, status: str
) -> None:
    def answer(prompt: str, options: ProviderRunOptions) -> ProviderResult:
        if options.node == "tasks.bad":
            raise ProviderFailed("scripted", "overloaded")
        return ProviderResult(report=options.node, data={"items": [{"name": "bad"}, {"name": "good"}]})

    each = agent("tasks", attempts=2, backoff=Backoff(first_s=0.01))
    run = begin(store, planned_flow(each=each, child_errors=child_errors))
    assert finish_and_verify(store, tmp_path, run, Provider(answer)) == status
    assert Counter(one.node for one in all_of(store, run, AgentRequest))["tasks.bad"] == 2
    second = requests_of(store, run)["tasks.bad.2"]
    assert [one.status for one in second.previous_context] == ["failed"]  # type: ignore[union-attr]
    results = {one.key.parent.parent: one for one in all_of(store, run, AgentResult)}
    spawned = results[requests_of(store, run)["tasks.1"].key]
    assert spawned.result["failed"] == 1
    if child_errors == "fail":
        assert "1 of 2 children failed, the first: bad" in spawned.error


@pytest.mark.parametrize(
    ("items", "why"), [("no list", "expected a list"), (list(range(4)), "max_items is 3")], ids=["no list", "too many"]
)
def test_items_that_cannot_be_spawned_fail_the_node_with_a_reason(
    tmp_path: Path, store: Store, items: Any, why: str
) -> None:
    run = begin(store, planned_flow(max_items=3))
    assert finish_and_verify(store, tmp_path, run, Provider(planned(items))) == "failed"
    assert any(why in str(one.error) for one in all_of(store, run, AgentResult))


def test_a_spawn_in_a_loop_sends_its_children_out_anew(tmp_path: Path, store: Store) -> None:
    verdicts = iter(["changes_requested", "approved"])

    def answer(prompt: str, options: ProviderRunOptions) -> ProviderResult:
        decision: Any = next(verdicts) if prompt == "audit" else None
        return ProviderResult(report=options.node, decision=decision, data={"items": [1, 2]})

    flow = workflow(
        agent("plan"),
        spawn(),
        agent("audit"),
        edges=[
            Edge(source="plan", target="tasks"),
            Edge(source="tasks", target="audit"),
            Edge(source="audit", target="plan", when="decision == 'changes_requested'", max_loops=2),
        ],
    )
    run = begin(store, flow)
    assert finish_and_verify(store, tmp_path, run, Provider(answer)) == "completed"
    requests = requests_of(store, run)
    assert len(all_of(store, run, AgentRequests)) == 2
    assert requests["tasks.1.1"].key.parent != requests["tasks.1.2"].key.parent
    assert Counter(one.node for one in requests.values())["tasks.1"] == 2
    assert [one.status for one in requests["tasks.1.2"].previous_context] == ["completed"]  # type: ignore[union-attr]


def test_an_empty_list_spawns_nothing_and_completes(tmp_path: Path, store: Store) -> None:
    run = begin(store, planned_flow())
    assert finish_and_verify(store, tmp_path, run, Provider(planned([]))) == "completed"


# sub-workflow


def inner() -> Workflow:
    return Workflow(
        name="inner",
        nodes=(agent("draft"), agent("review"), agent("never")),
        edges=(
            Edge(source="draft", target="review"),
            Edge(source="review", target="draft", when="decision == 'changes_requested'", max_loops=2, priority=1),
            Edge(source="review", target="never", when="decision == 'blocked'", priority=2),
        ),
        inputs=(Input(name="topic", required=True), Input(name="style", default="plain")),
    )


def with_inner(**inputs: Any) -> Workflow:
    return workflow(
        agent("before"),
        WorkflowNode(key="sub", workflow="inner", definition=inner(), inputs=inputs),
        agent("after"),
        edges=[
            Edge(source="before", target="sub"),
            Edge(source="sub", target="after", when="decision == 'approved' and report.score > 1"),
        ],
    )


def test_a_sub_workflow_runs_in_the_same_tree_and_its_last_result_routes(tmp_path: Path, store: Store) -> None:
    verdicts = iter(["changes_requested", "approved"])

    def answer(prompt: str, options: ProviderRunOptions) -> ProviderResult:
        if prompt == "review":
            return ProviderResult("verdict", decision=next(verdicts), data={"score": 2})  # type: ignore[arg-type]
        return echo(prompt, options)

    run = begin(store, with_inner(topic="keys"))
    provider = Provider(answer)
    assert finish_and_verify(store, tmp_path, run, provider) == "completed"
    assert [options.node for _, options in provider.seen] == [
        "before",
        "sub.draft",
        "sub.review",
        "sub.draft",
        "sub.review",
        "after",
    ]
    requests = requests_of(store, run)
    assert requests["sub.1"].request["inputs"] == {"topic": "keys", "style": "plain"}
    for name in ("sub.draft.1", "sub.review.1", "sub.draft.2"):
        assert requests[name].key.parent == requests["sub.1"].key
    reports = {one.node_key: one for one in all_of(store, run, Report)}
    assert reports["sub"].text == "verdict"
    assert "verdict" in provider.seen[-1][1].context[0]
    with store.artifacts.read() as reader:
        assert reader.find_claim(reports["sub"].key.root, "sub.never", 0, 0, "pruned") is not None


def test_a_sub_workflow_that_fails_fails_its_node(tmp_path: Path, store: Store) -> None:
    definition = workflow(CommandNode(key="build", run=("3", "broken")), edges=[])
    run = begin(store, workflow(WorkflowNode(key="sub", workflow="x", definition=definition), edges=[]))
    assert finish_and_verify(store, tmp_path, run, Provider(echo)) == "failed"
    assert any("failed at sub.build (unhandled_failure)" in str(one.error) for one in all_of(store, run, AgentResult))


def test_inputs_that_do_not_fit_fail_the_node_with_a_reason(tmp_path: Path, store: Store) -> None:
    run = begin(store, with_inner(topic=7))
    assert finish_and_verify(store, tmp_path, run, Provider(echo)) == "failed"
    assert any("topic is int, expected string" in str(one.error) for one in all_of(store, run, AgentResult))


def test_a_gate_inside_a_spawned_workflow_can_be_answered(tmp_path: Path, store: Store) -> None:
    definition = workflow(GateNode(key="ok", ask="Go?"), edges=[])
    each = WorkflowNode(key="tasks", workflow="x", definition=definition)
    run = begin(store, planned_flow(each=each))
    with boot(tmp_path / "engine.db", make_executor(store, Provider(planned([1])))) as engine:
        engine.submit(run)
        wait_for(lambda: any(one.node == "tasks.1.ok" for one in all_of(store, run, AgentRequest)))
        assert Control(store.artifacts, store.keys).answer(run, "tasks.1.ok", "approved", "me")
        assert engine.wait(run, 20) == "completed"


@pytest.mark.parametrize("keeps_engine", [True, False], ids=["engine kept", "engine lost"])
def test_a_graph_inside_is_continued_where_it_was(tmp_path: Path, store: Store, keeps_engine: bool) -> None:
    definition = chain("one", "two")
    each = WorkflowNode(key="tasks", workflow="x", definition=definition)
    run = begin(store, planned_flow(each=each, parallel=1))
    calls = tmp_path / "calls"

    class Stops(Provider):
        async def run(self, prompt: str, options: ProviderRunOptions) -> Any:
            self._seconds = 30.0 if options.node == "tasks.2.two" else 0.0
            async for item in super().run(prompt, options):
                yield item

    with boot(tmp_path / "engine.db", make_executor(store, Stops(planned([1, 2, 3]), calls))) as engine:
        engine.submit(run)
        wait_for(lambda: any(one.node == "tasks.2.two" for one in all_of(store, run, AgentRequest)))
        wait_for(lambda: calls.read_text().count("two") == 2)
    if not keeps_engine:
        for name in ("engine.db", "engine.db-wal", "engine.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
    assert finish_and_verify(store, tmp_path, run, Provider(planned([]), calls)) == "completed"
    assert Counter(calls.read_text().split()) == {"plan": 1, "one": 3, "two": 4}
    assert len(all_of(store, run, AgentResult)) == 1 + 3 * 3 + 2
    assert sum(one.delivery == 2 for one in all_of(store, run, Delivery)) == 1


def test_graphs_nested_deeper_than_keys_allow_fail_with_a_reason(tmp_path: Path, store: Store) -> None:
    flow = chain("leaf")
    for _ in range(22):
        each = WorkflowNode(key="s", workflow="x", definition=flow)
        flow = workflow(SpawnNode(key="s", each=each, items=(1,)), edges=[])
    run = begin(store, flow)
    assert finish_and_verify(store, tmp_path, run, Provider(echo)) == "failed"
    assert any("graphs inside graphs deeper than" in str(one.error) for one in all_of(store, run, AgentResult))


# write_file


def test_a_file_holds_its_content_or_the_report_of_its_source(tmp_path: Path, store: Store) -> None:
    flow = Workflow(
        name="story",
        nodes=(
            agent("a"),
            WriteFileNode(key="copy", source="a", output="docs/copy.md"),
            WriteFileNode(key="text", content="for ${inputs.who}", output="docs/text.md"),
        ),
        edges=(Edge(source="a", target="copy"), Edge(source="copy", target="text")),
        inputs=(Input(name="who"),),
    )
    run = begin(store, flow, who="you")
    assert finish_and_verify(store, tmp_path, run, Provider(echo)) == "completed"
    reports = {one.node_key: one.text for one in all_of(store, run, Report)}
    assert (reports["copy"], reports["text"]) == ("report of a", "for you")


def test_a_file_whose_source_has_no_report_fails(tmp_path: Path, store: Store) -> None:
    flow = workflow(agent("a"), WriteFileNode(key="copy", source="b", output="docs/x.md"), agent("b"), edges=[])
    run = begin(store, flow)
    provider = Provider(echo, seconds=0.3)
    assert finish_and_verify(store, tmp_path, run, provider) == "failed"
    assert any("a report of node b" in str(one.error) for one in all_of(store, run, AgentResult))
