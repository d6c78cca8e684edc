"""A workflow as a picture: Mermaid text, or lanes for a terminal in which every edge can be followed by eye.

In the lanes, nodes stand in the order in which they can run. A lane is an edge on its way to the node it ends at; edges
to the same node share one. Edges that lead back are named beside the node they start from.
"""

from __future__ import annotations

from typing import Final

from sapwood.core.workflow import AgentNode, Edge, Node, SpawnNode, Workflow, WorkflowNode

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
_CORNERS: Final = {
    0: " ",
    UP | DOWN: "│",
    LEFT | RIGHT: "─",
    DOWN | RIGHT: "╭",
    DOWN | LEFT: "╮",
    UP | RIGHT: "╰",
    UP | LEFT: "╯",
    UP | DOWN | RIGHT: "├",
    UP | DOWN | LEFT: "┤",
    LEFT | RIGHT | DOWN: "┬",
    LEFT | RIGHT | UP: "┴",
    UP | DOWN | LEFT | RIGHT: "┼",
}
_SHAPES: Final = {"gate": ("{{", "}}"), "join": ("[[", "]]"), "spawn": ("[/", "/]"), "workflow": ("[(", ")]")}


def to_mermaid(workflow: Workflow) -> str:
    """Return the graph as a Mermaid flowchart."""
    ids = {node.key: f"n{place}" for place, node in enumerate(workflow.nodes)}
    lines = ["flowchart TD"]
    for node in workflow.nodes:
        opening, closing = _SHAPES.get(node.kind, ("[", "]"))
        lines.append(f'  {ids[node.key]}{opening}"{_quoted(title_of(node))}"{closing}')
    for edge in workflow.edges:
        arrow = "-.->" if edge.is_loop or edge.on == "failure" else "-->"
        words = f'|"{_quoted(edge.conditions)}"|' if edge.conditions else ""
        lines.append(f"  {ids[edge.source]} {arrow}{words} {ids[edge.target]}")
    return "\n".join(lines) + "\n"


def to_lanes(workflow: Workflow) -> str:
    """Return the graph as lines for a terminal."""
    rows: list[tuple[str, str]] = []
    lanes: list[str] = []  # the node that each lane leads to
    for key in workflow.order:
        if key not in lanes:
            if rows and len(rows[-1][0]) > 2 * len(lanes):  # what ended there does not lead here
                rows.append((" ".join("│" for _ in lanes), ""))
            lanes.append(key)
        place = lanes.index(key)
        marks = ["●" if lane == place else "│" for lane in range(len(lanes))]
        leaving = [workflow.edges[edge] for edge in workflow.edges_from(key)]
        rows.append((" ".join(marks), title_of(workflow.node(key))))
        rows += [(" ".join("│" for _ in lanes), f"    {_note(edge)}") for edge in leaving if edge.conditions]
        targets = list(dict.fromkeys(edge.target for edge in leaving if not edge.is_loop))
        if not targets and len(rows) > 1:  # the lane ends here: its part of the notes is empty
            rows = _without_tail(rows, place, sum(bool(edge.conditions) for edge in leaving))
        new = _next_lanes(lanes, place, targets)
        rows += [(row, "") for row in _moves(lanes, place, targets, new)]
        lanes = new
    width = max(len(row) for row, _ in rows)
    return "\n".join(f"{row.ljust(width)}  {text}".rstrip() for row, text in rows) + "\n"


def title_of(node: Node) -> str:
    """Return a node in a few words."""
    more = ""
    if isinstance(node, AgentNode):
        more = f" {node.provider}" + (f", phase {node.phase}" if node.phase is not None else "")
    elif isinstance(node, SpawnNode):
        more = f" of {node.each.kind} for each of {node.items if isinstance(node.items, str) else len(node.items)}"
    elif isinstance(node, WorkflowNode):
        more = f" {node.workflow}"
    return f"{node.key} ({node.kind}{more})" + (f" -> {node.output}" if node.output else "")


def _note(edge: Edge) -> str:
    return f"{'back to' if edge.is_loop else 'to'} {edge.target}: {edge.conditions}"


def _without_tail(rows: list[tuple[str, str]], place: int, count: int) -> list[tuple[str, str]]:
    keep = rows[: len(rows) - count]
    cut = [(row[: 2 * place] + " " + row[2 * place + 1 :], text) for row, text in rows[len(rows) - count :]]
    return keep + cut


def _next_lanes(lanes: list[str], place: int, targets: list[str]) -> list[str]:
    others = [lane for at, lane in enumerate(lanes) if at != place]
    fresh = [target for target in targets if target not in others]
    return [*lanes[:place], *fresh, *lanes[place + 1 :]]


def _moves(lanes: list[str], place: int, targets: list[str], new: list[str]) -> list[str]:
    """Return the lines between two nodes: where the lane goes, and where the lanes beside it move to."""
    ways = {at: [new.index(lane)] for at, lane in enumerate(lanes) if at != place}
    ways[place] = [new.index(target) for target in targets]
    if all(ends == [at] for at, ends in ways.items()):
        return []
    shift = len(new) - len(lanes)
    others = sorted((at for at in ways if at != place), reverse=shift > 0)
    if shift < 0:  # it joins lanes that have not moved yet; the next one then comes to its place
        ways[place] = [place if lanes.index(target) == place + 1 else lanes.index(target) for target in targets]
    steps = [*others, place] if shift > 0 else [place, *others]  # those beside it make room first, or close up last
    now = {at: [at] for at in ways}
    rows = []
    for at in steps:
        if ways[at] not in ([at], []):
            rows.append(_move(now, at, ways[at], 2 * max(len(lanes), len(new)) + 1))
        now[at] = ways[at] if at != place or shift >= 0 else [end for end in ways[at] if end == place]
    return rows


def _move(now: dict[int, list[int]], at: int, ends: list[int], width: int) -> str:
    """Return the line in which the lane at `at` goes to its ends, and all others go straight on."""
    cells = [0] * width
    for other, columns in now.items():
        for column in columns if other != at else ():
            cells[2 * column] |= UP | DOWN
    cells[2 * at] |= UP
    for end in ends:
        cells[2 * end] |= DOWN
        low, high = sorted((2 * at, 2 * end))
        for column in range(low, high):
            cells[column] |= RIGHT
            cells[column + 1] |= LEFT
    return "".join(_CORNERS[cell] for cell in cells).rstrip()


def _quoted(text: str) -> str:
    return " ".join(text.split()).replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
