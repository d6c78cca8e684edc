"""Who is a selected direct predecessor now: loops, retries, branches and joins."""

from __future__ import annotations

import pytest

from sapwood.core.selection import Visit, eligible_artifacts, select_predecessors
from tests.core.test_handoff_vectors import artifact, assemble

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


def test_a_report_of_another_attempt_is_not_eligible_while_its_log_still_shows_that_there_was_something() -> None:
    chosen = (visit("brainstorm", 2, to=("pick",)),)
    stale = artifact(run_node_id=1, attempt=1, artifact_id=1, created_at="2027-01-01T00:00:00Z")
    fresh = artifact(run_node_id=1, attempt=2, artifact_id=2)
    log = artifact(run_node_id=1, attempt=1, artifact_id=3, artifact_type="log")
    other = artifact(run_node_id=9, artifact_id=4)
    assert eligible_artifacts([stale, fresh, log, other], chosen) == [fresh, log]
    manifest = assemble(eligible_artifacts([stale, log], chosen)).manifest
    assert manifest["missing_upstream_artifacts"] is manifest["no_eligible_artifact_types"] is True


@pytest.mark.mutant
def test_without_the_attempt_the_stale_report_wins() -> None:
    stale = artifact(run_node_id=1, attempt=1, artifact_id=1, created_at="2027-01-01T00:00:00Z")
    fresh = artifact(run_node_id=1, attempt=2, artifact_id=2)
    right = assemble(eligible_artifacts([stale, fresh], [visit("brainstorm", 2, to=("pick",))]))
    assert right.manifest["included_artifact_ids"] == [2]
    assert assemble([stale, fresh]).manifest["included_artifact_ids"] == [1]
