"""Graphs inside graphs, killed at random moments: each level goes on where it was, and nothing recorded is repeated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sapwood.core.artifacts import AgentRequest, AgentRequests, AgentResult, Delivery
from sapwood.core.keys import ArtifactKey
from sapwood.core.workflow import Edge, JoinNode, SpawnNode, Workflow, WorkflowNode
from sapwood.runtime.session import Store
from sapwood.runtime.start import open_run
from tests.conftest import Dose
from tests.runtime.test_kill import AT_ONCE, drive
from tests.runtime.world import agent, all_of, chain, open_world, workflow

INNER = ("one", "two")
CHILDREN = ("1", "2", "3")
LEAVES = {f"tasks.{child}.{name}" for child in CHILDREN for name in INNER} | {"last"}
NODES = LEAVES | {f"tasks.{child}" for child in CHILDREN} | {"tasks", "join"}


@pytest.mark.torture(short=2, full=300)
@pytest.mark.parametrize("way", ["kill", "kill and no engine"])
def test_a_killed_run_with_graphs_inside_ends_whole(tmp_path: Path, dose: Dose, way: str) -> None:
    stops = 0
    for number, first in enumerate(range(0, dose.count, AT_ONCE)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with open_world(folder / "sapwood.db") as store:
            runs = [open_run(store, flow(), {}, {}).text for _ in range(min(AT_ONCE, dose.count - first))]
        stops += drive(folder, dose.rng, way)
        with open_world(folder / "sapwood.db") as store:
            for run in runs:
                dose.failures += [f"{way} {number} after {stops} stops: {what}" for what in wrong_with(store, run)]
    if dose.count >= 100 and stops < dose.count // AT_ONCE:
        dose.failures.append(f"only {stops} stops: nothing was tested")


def flow() -> Workflow:
    each = WorkflowNode(key="tasks", workflow="inner", definition=chain(*INNER))
    return workflow(
        SpawnNode(key="tasks", each=each, items=CHILDREN, parallel=2),
        JoinNode(key="join"),
        agent("last"),
        edges=[Edge(source="tasks", target="join"), Edge(source="join", target="last")],
    )


def wrong_with(store: Store, run: str) -> list[str]:
    verification = store.verify(run)
    wrong = [str(finding) for finding in verification.findings if finding.is_failure]
    with store.artifacts.read() as reader:
        row = reader.find_run(ArtifactKey(run))
    if row is None or row.status != "completed":
        wrong.append(f"the run is {row and row.status}")
    requests = {one.key: one for one in all_of(store, run, AgentRequest)}
    if Counter(one.node for one in requests.values()) != dict.fromkeys(NODES, 1):
        wrong.append(f"attempts {sorted(one.node for one in requests.values())}")
    scopes = {one.key: requests[one.key.parent].node for one in all_of(store, run, Delivery)}
    results = Counter(scopes[one.key.parent] for one in all_of(store, run, AgentResult))
    if results != dict.fromkeys(NODES, 1):
        wrong.append(f"results {dict(results)}")
    wrong += [f"{len(found)} containers" for found in [all_of(store, run, AgentRequests)] if len(found) != 1]
    for one in requests.values():
        above = one.node.rpartition(".")[0]
        if above and above not in ("tasks",) and requests_of(requests, above) != one.key.parent:
            wrong.append(f"{one.node} is not below {above}")
    return wrong


def requests_of(requests: dict[ArtifactKey, AgentRequest], node: str) -> ArtifactKey:
    return next(key for key, one in requests.items() if one.node == node)
