"""Run state -> the nodes that may start. Pure, and the order in which visits end changes nothing but the order.

A node starts when every edge into it (loop edges apart) is decided and one of them, or a loop, selected it. It is
skipped when none did, and its own edges then pass. A visit that selects a loop edge leaves its other edges open,
because the node comes again. A loop whose body nothing else can see fires at once; any other waits until nothing
moves, and all that wait fire together, so that no result depends on which branch was faster.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from sapwood.core.routing import Outcome, Selection
from sapwood.core.workflow import Workflow

NodeStatus = Literal["waiting", "running", "completed", "failed", "skipped"]
EdgeStatus = Literal["open", "selected", "passed"]


class NodeState(msgspec.Struct, frozen=True):
    """Where a node stands. `opened_by` are the loop edges that led to its present visit."""

    status: NodeStatus = "waiting"
    visits: int = 0
    opened_by: tuple[int, ...] = ()


class RunState(msgspec.Struct, frozen=True):
    """Where a run stands: nodes by key, edges by place, how often each loop edge was selected, and why it failed."""

    nodes: dict[str, NodeState]
    edges: tuple[EdgeStatus, ...]
    loops: dict[int, int] = {}
    endings: tuple[tuple[str, str], ...] = ()

    @property
    def running(self) -> tuple[str, ...]:
        return tuple(key for key, node in self.nodes.items() if node.status == "running")


class Progress(msgspec.Struct, frozen=True):
    """A state after something happened: what may start now, in the order of the file, and what changed on the way.

    `skipped` nodes were pruned, `reopened` ones go round again, `fired` are the loop edges that did it.
    """

    state: RunState
    ready: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    reopened: tuple[str, ...] = ()
    fired: tuple[int, ...] = ()

    @property
    def is_finished(self) -> bool:
        return not self.ready and not self.state.running

    @property
    def outcome(self) -> Outcome:
        """Return the run's outcome; it stands once the run is finished."""
        return "failure" if self.state.endings else "success"


def begin(workflow: Workflow) -> Progress:
    """Return the state of a run that has not started anything."""
    nodes = {node.key: NodeState() for node in workflow.nodes}
    edges: list[EdgeStatus] = ["open"] * len(workflow.edges)
    return _settle(workflow, _Draft(workflow, RunState(nodes, tuple(edges))))


def start(state: RunState, key: str) -> RunState:
    """Return the state once a ready node has been claimed."""
    node = state.nodes[key]
    if node.status != "waiting":
        raise ValueError(f"{key} is {node.status} and cannot start")
    claimed = NodeState("running", node.visits + 1, node.opened_by)
    return msgspec.structs.replace(state, nodes={**state.nodes, key: claimed})


def finish(workflow: Workflow, state: RunState, selection: Selection) -> Progress:
    """Return the state after the running node of `selection` has ended and its edges are decided."""
    key = selection.node
    if state.nodes[key].status != "running":
        raise ValueError(f"{key} is {state.nodes[key].status} and cannot finish")
    draft = _Draft(workflow, state)
    draft.end_visit(selection)
    return _settle(workflow, draft)


def selected_predecessors(workflow: Workflow, state: RunState, key: str) -> tuple[str, ...]:
    """Return the nodes whose latest visit selected an edge into this visit of `key`, in the order of the file."""
    opened_by = state.nodes[key].opened_by
    sources = {
        workflow.edges[place].source
        for place in workflow.edges_into(key)
        if place in opened_by or (not workflow.edges[place].is_loop and state.edges[place] == "selected")
    }
    return tuple(sorted(sources, key=workflow.sequence_index))


class _Draft:
    """A state under change; lives only inside one call."""

    def __init__(self, workflow: Workflow, state: RunState) -> None:
        self.workflow = workflow
        self.nodes = dict(state.nodes)
        self.edges = list(state.edges)
        self.loops = dict(state.loops)
        self.endings = list(state.endings)
        self.loop_edges = [place for place, edge in enumerate(workflow.edges) if edge.is_loop]

    def frozen(self) -> RunState:
        return RunState(self.nodes, tuple(self.edges), self.loops, tuple(self.endings))

    def end_visit(self, selection: Selection) -> None:
        key = selection.node
        chosen = set(selection.selected)
        comes_again = any(self.workflow.edges[place].is_loop for place in chosen)
        for place in self.workflow.edges_from(key):
            if place in chosen:
                self.edges[place] = "selected"
                if self.workflow.edges[place].is_loop:
                    self.loops[place] = self.loops.get(place, 0) + 1
            elif not comes_again:
                self.edges[place] = "passed"
        status: NodeStatus = "completed" if selection.outcome == "success" else "failed"
        self.nodes[key] = NodeState(status, self.nodes[key].visits)
        if selection.ending is not None:
            self.endings.append((key, selection.ending))

    def skip_unselected(self) -> list[str]:
        """Skip every node that nothing can select any more, and what only they could have selected."""
        skipped = []
        for key in self.workflow.order:
            if self.nodes[key].status == "waiting" and self.is_decided(key) and not self.is_selected(key):
                self.nodes[key] = NodeState("skipped", self.nodes[key].visits)
                for place in self.workflow.edges_from(key):
                    self.edges[place] = "passed"
                skipped.append(key)
        return skipped

    def is_decided(self, key: str) -> bool:
        return all(self.edges[place] != "open" for place in self.forward_into(key))

    def is_selected(self, key: str) -> bool:
        into = self.forward_into(key)
        is_entry = not into and self.nodes[key].visits == 0
        return is_entry or bool(self.nodes[key].opened_by) or any(self.edges[place] == "selected" for place in into)

    def is_ready(self, key: str) -> bool:
        return self.nodes[key].status == "waiting" and self.is_decided(key) and self.is_selected(key)

    def forward_into(self, key: str) -> list[int]:
        return [place for place in self.workflow.edges_into(key) if not self.workflow.edges[place].is_loop]

    def fire_loops(self) -> tuple[list[int], list[str]]:
        """Fire the selected loop edges that nothing live can disturb; return them and the nodes they opened again."""
        firing = self._undisturbed()
        opened = {key for place in firing for key in self.workflow.reach[self.workflow.edges[place].target]}
        for key in opened:
            self.nodes[key] = NodeState("waiting", self.nodes[key].visits)
            for place in self.workflow.edges_from(key):
                self.edges[place] = "open"
        for place in firing:
            target = self.workflow.edges[place].target
            node = self.nodes[target]
            self.nodes[target] = NodeState("waiting", node.visits, (*node.opened_by, place))
        return firing, [node.key for node in self.workflow.nodes if node.key in opened]

    def _undisturbed(self) -> list[int]:
        """Return the selected loop edges that may fire now."""
        pending = [place for place in self.loop_edges if self.edges[place] == "selected"]
        hidden = [place for place in pending if self._is_hidden(place)]
        is_moving = any(node.status == "running" or self.is_ready(key) for key, node in self.nodes.items())
        return hidden if hidden or is_moving else pending

    def _is_hidden(self, place: int) -> bool:
        """Tell whether nothing outside the loop's body depends on this visit: it selected the loop and nothing else."""
        source = self.workflow.edges[place].source
        others = [other for other in self.workflow.edges_from(source) if other != place]
        return place in self.workflow.closed_loops and all(self.edges[other] == "open" for other in others)


def _settle(workflow: Workflow, draft: _Draft) -> Progress:
    skipped: list[str] = []
    reopened: list[str] = []
    fired: list[int] = []
    while True:
        skipped += draft.skip_unselected()
        now_fired, now_reopened = draft.fire_loops()
        if not now_fired:
            break
        fired += now_fired
        reopened += now_reopened
    ready = tuple(node.key for node in workflow.nodes if draft.is_ready(node.key))
    return Progress(draft.frozen(), ready, tuple(skipped), tuple(reopened), tuple(fired))
