"""Pictures of graphs: every node once, every lane leads where its edge does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sapwood.core.drawing import _CORNERS, DOWN, LEFT, RIGHT, UP, to_lanes, to_mermaid
from sapwood.core.workflow import Edge, JoinNode, Workflow

SIDES = {sign: bits for bits, sign in _CORNERS.items()} | {"●": UP | DOWN}


@st.composite
def graphs(draw: st.DrawFn) -> Workflow:
    count = draw(st.integers(1, 9))
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    edges = tuple(Edge(source=f"n{a}", target=f"n{b}") for a, b in chosen)
    return Workflow(name="x", nodes=tuple(JoinNode(key=f"n{n}") for n in range(count)), edges=edges)


def reached(lines: list[str]) -> set[tuple[str, str]]:
    """Follow every lane of the picture down from each node; return which nodes it comes to."""
    names = [line.split("(")[0].split()[-1] if "●" in line else "" for line in lines]
    grid = [line.split("  n")[0] for line in lines]
    found = set()
    for row, line in enumerate(grid):
        for column, sign in enumerate(line):
            if sign == "●":
                found |= {(names[row], end) for end in _below(grid, names, row, column)}
    return found


def _below(grid: list[str], names: list[str], row: int, column: int) -> set[str]:
    ends: set[str] = set()
    seen: set[tuple[int, int, int]] = set()
    todo = [(row + 1, column, UP)]
    while todo:
        at = todo.pop()
        if at in seen or at[0] >= len(grid) or at[1] >= len(grid[at[0]]):
            continue
        seen.add(at)
        y, x, side = at
        sign = grid[y][x]
        if sign == "●":
            ends.add(names[y])
            continue
        if not SIDES[sign] & side:
            continue
        for way, (dy, dx, entered) in {DOWN: (1, 0, UP), LEFT: (0, -1, RIGHT), RIGHT: (0, 1, LEFT)}.items():
            if SIDES[sign] & way and way != side:
                todo.append((y + dy, x + dx, entered))
    return ends


@settings(max_examples=300)
@given(graphs())
def test_every_node_stands_once_and_lanes_lead_down_to_every_target(workflow: Workflow) -> None:
    lines = to_lanes(workflow).splitlines()
    assert [line.split("(")[0].split()[-1] for line in lines if "●" in line] == list(workflow.order)
    edges = {(edge.source, edge.target) for edge in workflow.edges}
    ways = reached(lines)
    assert edges <= ways
    assert edges or not ways  # where lanes meet, the eye has two ways to go; without edges there is none


def test_conditions_and_loops_are_named_and_quoted() -> None:
    nodes = (JoinNode(key="a"), JoinNode(key="b"))
    edges = (
        Edge(source="a", target="b", on="failure"),
        Edge(source="b", target="a", when='decision == "retry"', max_loops=2),
    )
    workflow = Workflow(name="x", nodes=nodes, edges=edges)
    assert to_lanes(workflow).splitlines() == [
        "●  a (join)",
        "│      to b: on failure",
        "●  b (join)",
        '       back to a: when decision == "retry", at most 2 times',
    ]
    assert to_mermaid(workflow).splitlines()[-1] == (
        '  n1 -.->|"when decision == #quot;retry#quot;, at most 2 times"| n0'
    )
