"""Who is a selected direct predecessor now: loops, retries, branches and joins."""

from __future__ import annotations

import pytest

from sapwood.core.selection import Visit, select_predecessors

IDS = {"brainstorm": 1, "pick": 2, "research": 3, "review": 4}


def visit(node: str, attempt: int = 1, status: str = "completed", to: tuple[str, ...] = ()) -> Visit:
    return Visit(IDS[node], node, IDS[node] - 1, attempt, status, to)


def predecessors(target: str, *visits: Visit) -> list[tuple[str, int]]:
    return [(chosen.node_key, chosen.attempt) for chosen in select_predecessors(visits, target)]


def test_a_chain_gives_the_direct_predecessor_only() -> None:
    visits = visit("brainstorm", to=("pick",)), visit("pick", to=("research",))
    assert predecessors("research", *visits) == [("pick", 1)]


def test_a_predecessor_that_chose_another_edge_gives_nothing() -> None:
    assert predecessors("pick", visit("brainstorm", to=("research",))) == []


def test_a_branch_gives_its_report_to_every_node_it_selected() -> None:
    branch = visit("brainstorm", to=("pick", "research"))
    assert predecessors("pick", branch) == predecessors("research", branch) == [("brainstorm", 1)]


def test_a_join_gets_every_selected_predecessor_by_run_node() -> None:
    visits = visit("research", to=("review",)), visit("pick", to=("review",)), visit("brainstorm", to=("pick",))
    assert predecessors("review", *visits) == [("pick", 1), ("research", 1)]


@pytest.mark.parametrize("status", ["running", "failed", "requeued", "pending", "cancelled", "skipped"])
def test_a_predecessor_that_is_not_completed_gives_nothing(status: str) -> None:
    assert predecessors("pick", visit("brainstorm", status=status, to=("pick",))) == []


@pytest.mark.parametrize("status", ["running", "failed", "requeued"])
def test_an_earlier_completed_visit_does_not_count_while_a_later_one_is_not_completed(status: str) -> None:
    visits = visit("brainstorm", 1, to=("pick",)), visit("brainstorm", 2, status, ("pick",))
    assert predecessors("pick", *visits) == []


def test_in_a_loop_the_latest_visit_counts_and_its_own_edge() -> None:
    first, again = visit("research", 1, to=("brainstorm",)), visit("research", 2, to=("review",))
    assert predecessors("brainstorm", first) == [("research", 1)]
    assert predecessors("brainstorm", again, first) == []
    assert predecessors("review", again, first) == [("research", 2)]


def test_a_retry_that_completed_counts_with_its_own_attempt() -> None:
    visits = visit("brainstorm", 1, "failed"), visit("brainstorm", 2, to=("pick",))
    assert predecessors("pick", *visits) == [("brainstorm", 2)]
