"""Schedules: which nodes start, which are skipped, what a loop opens again, and that speed changes nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sapwood.core import schedule
from sapwood.core.graph import find_cycle
from sapwood.core.routing import EdgeDecision, Ending, Outcome, Selection
from sapwood.core.schedule import Progress, RunState, begin, finish, selected_predecessors, start
from sapwood.core.workflow import AgentNode, Edge, Workflow
from tests.conftest import Dose


def graph(*arrows: str) -> Workflow:
    """Build a workflow from `a>b` (an edge) and `b>a*2` (a loop of at most two)."""
    edges = []
    keys: dict[str, None] = {}
    for arrow in arrows:
        pair, _, bound = arrow.partition("*")
        source, target = pair.split(">")
        keys |= dict.fromkeys((source, target))
        edges.append(Edge(source=source, target=target, max_loops=int(bound) if bound else None))
    return Workflow(name="g", nodes=tuple(AgentNode(key=key, template="tpl.a.b") for key in keys), edges=tuple(edges))


def choose(workflow: Workflow, key: str, *targets: str, outcome: Outcome = "success") -> Selection:
    decisions = tuple(
        EdgeDecision(
            edge=place,
            source=key,
            target=workflow.edges[place].target,
            selected=workflow.edges[place].target in targets,
            reason="selected",
        )
        for place in workflow.edges_from(key)
    )
    ending: Ending | None = "unhandled_failure" if outcome == "failure" and not targets else None
    return Selection(node=key, outcome=outcome, decisions=decisions, ending=ending)


def play(workflow: Workflow, progress: Progress, key: str, *targets: str, outcome: Outcome = "success") -> Progress:
    assert key in progress.ready or key in progress.state.running
    state = progress.state if key in progress.state.running else start(progress.state, key)
    return finish(workflow, state, choose(workflow, key, *targets, outcome=outcome))


def test_a_line_goes_one_by_one_and_ends() -> None:
    line = graph("a>b", "b>c")
    now = begin(line)
    for key, target in [("a", "b"), ("b", "c"), ("c", "")]:
        assert now.ready == (key,)
        assert not now.is_finished
        now = play(line, now, key, target)
    assert now.is_finished
    assert now.outcome == "success"


def test_a_join_waits_for_every_edge_and_starts_with_those_selected() -> None:
    diamond = graph("a>b", "a>c", "b>d", "c>d")
    now = play(diamond, begin(diamond), "a", "b", "c")
    assert now.ready == ("b", "c")
    now = play(diamond, now, "c", "d")
    assert now.ready == ("b",)
    now = play(diamond, now, "b")
    assert now.ready == ("d",)
    assert selected_predecessors(diamond, now.state, "d") == ("c",)


def test_what_nothing_selected_is_skipped_with_all_behind_it() -> None:
    fork = graph("a>b", "a>c", "b>d", "c>e", "d>f", "e>f")
    now = play(fork, begin(fork), "a", "c")
    assert now.skipped == ("b", "d")
    assert now.ready == ("c",)
    now = play(fork, play(fork, now, "c", "e"), "e", "f")
    assert now.ready == ("f",)
    assert play(fork, now, "f").is_finished


def test_a_loop_opens_its_body_again_and_hands_the_critique_back() -> None:
    critique = graph("draft>review", "review>final", "review>draft*2")
    now = begin(critique)
    for visit in (1, 2):
        now = play(critique, play(critique, now, "draft", "review"), "review", "draft")
        assert now.fired == (2,)
        assert now.reopened == ("draft", "review", "final")
        assert now.ready == ("draft",)
        assert now.state.loops == {2: visit}
        assert selected_predecessors(critique, now.state, "draft") == ("review",)
    now = play(critique, play(critique, now, "draft", "review"), "review", "final")
    now = play(critique, now, "final")
    assert now.is_finished
    assert {key: node.visits for key, node in now.state.nodes.items()} == {"draft": 3, "review": 3, "final": 1}


def test_a_join_waits_while_one_of_its_branches_goes_round_again() -> None:
    two = graph("s>a", "s>b", "a>j", "b>j", "a>a*3")
    now = play(two, begin(two), "s", "a", "b")
    now = play(two, now, "a", "a")
    assert now.ready == ("a", "b"), "an independent branch does not hold up the loop"
    now = play(two, now, "b", "j")
    assert now.ready == ("a",), "the join knows that the other branch comes again"
    now = play(two, now, "a", "j")
    assert now.ready == ("j",)
    assert selected_predecessors(two, now.state, "j") == ("a", "b")


def test_a_failure_without_an_edge_fails_the_run_but_not_the_other_branch() -> None:
    fork = graph("a>b", "a>c", "b>d", "c>e")
    now = play(fork, begin(fork), "a", "b", "c")
    now = play(fork, now, "b", outcome="failure")
    assert now.skipped == ("d",)
    assert now.ready == ("c",)
    now = play(fork, play(fork, now, "c", "e"), "e")
    assert now.is_finished
    assert now.outcome == "failure"
    assert now.state.endings == (("b", "unhandled_failure"),)


@pytest.mark.parametrize("twice", ["start", "finish"])
def test_no_visit_starts_or_ends_twice(twice: str) -> None:
    line = graph("a>b")
    state = start(begin(line).state, "a")
    with pytest.raises(ValueError, match=f"cannot {twice}"):
        start(state, "a") if twice == "start" else finish(line, begin(line).state, choose(line, "a"))


def random_graph(rng: random.Random) -> Workflow:
    """Build a graph of up to 8 nodes whose loop edges lead back to something that leads to them."""
    keys = [f"n{at}" for at in range(rng.randint(1, 8))]
    arrows = {(keys[i], keys[j]) for i in range(len(keys)) for j in range(i + 1, len(keys)) if rng.random() < 0.35}
    forward = Workflow(
        name="g",
        nodes=tuple(AgentNode(key=key, template="tpl.a.b") for key in keys),
        edges=tuple(Edge(source=source, target=target) for source, target in sorted(arrows)),
    )
    backs = [(source, target) for target in keys for source in forward.reach[target]]
    loops = rng.sample(sorted(backs), min(len(backs), rng.randint(0, 4)))
    edges = [Edge(source=source, target=target, max_loops=rng.randint(1, 2)) for source, target in loops]
    shuffled = [*forward.edges, *edges]
    rng.shuffle(shuffled)
    return Workflow(name="g", nodes=forward.nodes, edges=tuple(shuffled))


def result_of(workflow: Workflow, state: RunState, key: str, salt: int) -> Selection:
    """Choose edges by node and visit alone, the way a provider that is asked the same answers the same."""
    rng = random.Random(f"{salt}.{key}.{state.nodes[key].visits}")
    fails = rng.random() < 0.1
    decisions = []
    for place in workflow.edges_from(key):
        edge = workflow.edges[place]
        wants = rng.random() < 0.6
        is_free = edge.max_loops is None or state.loops.get(place, 0) < edge.max_loops
        decisions.append(
            EdgeDecision(edge=place, source=key, target=edge.target, selected=wants and is_free, reason="selected")
        )
    return Selection(node=key, outcome="failure" if fails else "success", decisions=tuple(decisions))


def run_to_the_end(workflow: Workflow, salt: int, rng: random.Random) -> tuple[Any, ...]:
    """Finish running nodes in a random order; return everything a user could tell runs apart by."""
    now = begin(workflow)
    state = now.state
    seen: set[Any] = set()
    most = len(workflow.nodes) * (1 + sum(edge.max_loops or 0 for edge in workflow.edges))
    steps = 0
    while True:
        for key in now.ready:
            state = start(state, key)
            seen.add((key, state.nodes[key].visits, selected_predecessors(workflow, state, key)))
        if not state.running:
            break
        steps += 1
        assert steps <= most, "more visits than the bounds allow"
        now = finish(workflow, state, result_of(workflow, state, rng.choice(state.running), salt))
        state = now.state
    assert all(node.status in ("completed", "failed", "skipped") for node in state.nodes.values())
    for place, edge in enumerate(workflow.edges):
        assert state.loops.get(place, 0) <= (edge.max_loops or 0)
    visits = {key: (node.status, node.visits) for key, node in state.nodes.items()}
    return visits, state.edges, state.loops, seen


def check_order_does_not_matter(rng: random.Random) -> None:
    workflow = random_graph(rng)
    assert not find_cycle(
        [n.key for n in workflow.nodes], [(e.source, e.target) for e in workflow.edges if not e.is_loop]
    )
    salt = rng.randrange(10**9)
    first = run_to_the_end(workflow, salt, rng)
    for _ in range(3):
        assert run_to_the_end(workflow, salt, rng) == first


@pytest.mark.torture(short=400, full=40_000)
def test_random_graphs_end_within_their_bounds_whatever_finishes_first(dose: Dose) -> None:
    for number in range(dose.count):
        seed = dose.rng.randrange(2**48)
        try:
            check_order_does_not_matter(random.Random(seed))
        except AssertionError as error:
            dose.failures.append(f"graph {number} seed {seed}: {str(error)[:200]}")


@pytest.mark.mutant
@pytest.mark.parametrize("name", ["_undisturbed", "is_decided"])
def test_a_schedule_that_does_not_wait_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    impatient: dict[str, Any] = {
        "_undisturbed": lambda draft: [p for p in draft.loop_edges if draft.edges[p] == "selected"],
        "is_decided": lambda draft, key: (
            any(draft.edges[p] != "open" for p in draft.forward_into(key)) or not draft.forward_into(key)
        ),
    }
    monkeypatch.setattr(schedule._Draft, name, impatient[name])
    red = 0
    for seed in range(300):
        try:
            check_order_does_not_matter(random.Random(seed))
        except (AssertionError, ValueError):
            red += 1
    assert red > 5
