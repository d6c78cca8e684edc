"""Workflow, its nodes by kind, and the edges between them: what a workflow file says once it has been checked.

Everything here is frozen, defaults are already applied, and a Workflow becomes plain data and comes back equal
(`workflow_to_dict`, `workflow_from_dict`): a run stores it in its ExecutionConfig and never reads the file again.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, Literal, get_args

import msgspec

from sapwood.core.graph import descendants, forward_order
from sapwood.core.hashing import hash_json

InputType = Literal["string", "integer", "number", "boolean", "list", "object"]
Decision = Literal["approved", "changes_requested", "blocked", "retry"]
EdgeOn = Literal["success", "failure", "terminal"]

INPUT_TYPES: Final[tuple[InputType, ...]] = get_args(InputType)
DECISIONS: Final[tuple[Decision, ...]] = get_args(Decision)


class _Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen value with named fields; fields that the program does not know are refused."""


class Input(_Value, frozen=True, kw_only=True):
    """One value that a run is given. Without `required`, an input that is not given has its default."""

    name: str
    type: InputType = "string"
    required: bool = False
    default: Any = None
    description: str = ""


class Limits(_Value, frozen=True, kw_only=True):
    """What a node (all its attempts together) or a run may use; None is no limit.

    A step is one answer of a provider or one tool call. Cost is counted where prices are configured.
    """

    time_s: float | None = None
    tokens: int | None = None
    steps: int | None = None
    cost: float | None = None


class Backoff(_Value, frozen=True, kw_only=True):
    """How long a retry waits: `first_s`, then `factor` times as long each time, never more than `max_s`."""

    first_s: float = 1.0
    factor: float = 2.0
    max_s: float = 60.0

    def delay_s(self, retry: int) -> float:
        """Return the seconds before retry 1, 2, …"""
        if not self.first_s:
            return 0.0
        delay = self.first_s
        for _ in range(retry - 1):
            delay *= self.factor
            if delay >= self.max_s:
                break  # never a number too large to hold
        return min(delay, self.max_s)


class Price(_Value, frozen=True, kw_only=True):
    """What a million tokens of one model cost, in whatever currency the limits are written in."""

    input_per_million: float = 0.0
    output_per_million: float = 0.0


class ContextOptions(_Value, frozen=True, kw_only=True):
    """Extensions of the handoff, all off as in policy v1, and the numbers of the policy that differ from v1."""

    retry: bool = False
    failure_route: bool = False
    join: bool = False
    policy: dict[str, int] = {}


class BaseNode(_Value, frozen=True, kw_only=True):
    """What every kind of node has. `attempts` counts the first try too."""

    key: str
    description: str = ""
    select: Literal["first", "all"] = "first"
    attempts: int = 1
    backoff: Backoff = Backoff()
    limits: Limits = Limits()
    context: ContextOptions = ContextOptions()
    output: str | None = None
    ingest: bool = False
    ingest_errors: Literal["continue", "fail"] = "continue"
    worktree: bool = False

    @property
    def kind(self) -> str:
        """Return the word that the file uses for this kind of node."""
        return str(self.__struct_config__.tag)


class AgentNode(BaseNode, frozen=True, kw_only=True, tag_field="kind", tag="agent"):
    """One call of a provider in a fresh session, with the prompt that its template renders.

    A node with a `phase` ends with a PhaseHandoff; `produces` names the checked documents its result must hold.
    """

    template: str
    args: dict[str, Any] = {}
    system: str | None = None
    provider: str = "scripted"
    options: dict[str, Any] = {}
    tools: tuple[str, ...] = ()
    phase: int | None = None
    produces: Literal["discovery_report", "planning_tickets"] | None = None


class CommandNode(BaseNode, frozen=True, kw_only=True, tag_field="kind", tag="command"):
    """One program, given as words, never as shell text. Its exit code is the outcome; `report.exit_code` routes."""

    run: tuple[str, ...]
    cwd: str = "."
    env: dict[str, str] = {}
    success_codes: tuple[int, ...] = (0,)
    evidence: Literal["tests", "build", "merge"] | None = None


class WriteFileNode(BaseNode, frozen=True, kw_only=True, tag_field="kind", tag="write_file"):
    """Writes `content`, or the latest report of the node `source`, to `output`."""

    content: str | None = None
    source: str | None = None


class GateNode(BaseNode, frozen=True, kw_only=True, tag_field="kind", tag="gate"):
    """Asks a person and waits; the answer is the node's decision."""

    ask: str
    answers: tuple[Decision, ...] = ("approved", "changes_requested")


class SpawnNode(BaseNode, frozen=True, kw_only=True, tag_field="kind", tag="spawn"):
    """One child for each item of a list; ends when all its children have ended.

    `items` is the list itself, or the place of one: `report.…` (of the selected predecessor, or of `source`) or
    `inputs.…`. A child is `each` with the key `<node>.<name>`, its name from the item's `name` or its number.
    """

    each: AgentNode | CommandNode | WorkflowNode
    items: str | tuple[Any, ...] = "report.items"
    source: str | None = None
    max_items: int = 200
    parallel: int = 16
    child_errors: Literal["fail", "continue"] = "fail"


class JoinNode(BaseNode, frozen=True, kw_only=True, tag_field="kind", tag="join"):
    """Gathers the reports of its selected predecessors (of a spawn: of its children) into one."""


class WorkflowNode(BaseNode, frozen=True, kw_only=True, tag_field="kind", tag="workflow"):
    """Runs another workflow inside this run; its nodes are `<node>.<name>`. The definition is frozen with ours."""

    workflow: str
    definition: Workflow
    inputs: dict[str, Any] = {}


Node = AgentNode | CommandNode | WriteFileNode | GateNode | SpawnNode | JoinNode | WorkflowNode


class Edge(_Value, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """A way from one node to the next. Lower priorities are asked first; equal ones in the order of the file.

    An edge with `max_loops` leads back to a node before it and is selected at most that often in a run.
    """

    source: str
    target: str
    on: EdgeOn = "success"
    priority: int = 0
    when: str | None = None
    max_loops: int | None = None

    @property
    def is_loop(self) -> bool:
        return self.max_loops is not None

    @property
    def conditions(self) -> str:
        """Return in words under which conditions the edge is taken; nothing for the plain way on."""
        parts = [] if self.on == "success" else [f"on {self.on}"]
        if self.when is not None:
            parts.append(f"when {self.when}")
        if self.max_loops is not None:
            parts.append(f"at most {self.max_loops} times")
        return ", ".join(parts)


class Workflow(_Value, frozen=True, kw_only=True, dict=True):
    """A checked workflow. The place of a node in `nodes` is its `sequence_index`; an edge is known by its place."""

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    version: Literal[1] = 1
    description: str = ""
    inputs: tuple[Input, ...] = ()
    limits: Limits = Limits()
    phases: dict[str, dict[str, Any]] = {}
    prices: dict[str, Price] = {}

    @cached_property
    def source(self) -> str | None:
        """Return the text of the file that it was read from; None for one that was made otherwise."""
        return None

    def node(self, key: str) -> Node:
        """Return the node with this key; a key that is not there is a KeyError."""
        return self._by_key[key]

    def sequence_index(self, key: str) -> int:
        """Return the place of a node in the file, from 0."""
        return self._places[key]

    def edges_from(self, key: str) -> tuple[int, ...]:
        """Return the places of the edges that leave this node, in the order in which they are asked."""
        return self._leaving.get(key, ())

    def edges_into(self, key: str) -> tuple[int, ...]:
        """Return the places of the edges that end at this node, in the order of the file."""
        return self._entering.get(key, ())

    def phase_override(self, phase: int) -> dict[str, Any]:
        """Return the fields of the phase's manifest that this workflow sets."""
        return self.phases.get(str(phase), {})

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Return the keys so that every edge that is no loop leads forward; equals stay in the order of the file."""
        return tuple(forward_order(self._places, self._forward))

    @cached_property
    def reach(self) -> dict[str, frozenset[str]]:
        """Return for each node itself and all that can follow it without going back through a loop."""
        return descendants(self.order, self._forward)

    @cached_property
    def closed_loops(self) -> frozenset[int]:
        """Return the loop edges whose body only their own source leaves, and that no other loop starts or ends in."""
        return frozenset(place for place, edge in enumerate(self.edges) if edge.is_loop and self._is_closed(place))

    def _is_closed(self, place: int) -> bool:
        loop = self.edges[place]
        body = {key for key in self.reach[loop.target] if loop.source in self.reach[key]}
        leaves = any(a in body and b not in body and a != loop.source for a, b in self._forward)
        meets = any(
            other.is_loop and at != place and (other.source in body or other.target in body)
            for at, other in enumerate(self.edges)
        )
        return not leaves and not meets

    @cached_property
    def _forward(self) -> list[tuple[str, str]]:
        return [(edge.source, edge.target) for edge in self.edges if not edge.is_loop]

    @cached_property
    def _by_key(self) -> dict[str, Node]:
        return {node.key: node for node in self.nodes}

    @cached_property
    def _places(self) -> dict[str, int]:
        return {node.key: place for place, node in enumerate(self.nodes)}

    @cached_property
    def _leaving(self) -> dict[str, tuple[int, ...]]:
        by_source: dict[str, list[int]] = {}
        for place in sorted(range(len(self.edges)), key=lambda place: self.edges[place].priority):
            by_source.setdefault(self.edges[place].source, []).append(place)
        return {source: tuple(places) for source, places in by_source.items()}

    @cached_property
    def _entering(self) -> dict[str, tuple[int, ...]]:
        by_target: dict[str, list[int]] = {}
        for place, edge in enumerate(self.edges):
            by_target.setdefault(edge.target, []).append(place)
        return {target: tuple(places) for target, places in by_target.items()}


def with_source(workflow: Workflow, text: str | None) -> Workflow:
    """Return the workflow with the text of its file, which is no part of the graph: not compared, not written."""
    sourced = msgspec.structs.replace(workflow)
    vars(sourced)["source"] = text
    return sourced


def workflow_to_dict(workflow: Workflow) -> dict[str, Any]:
    """Return the workflow as JSON data, every field written out, so that a later default cannot change its meaning."""
    data: dict[str, Any] = msgspec.to_builtins(workflow)
    return data


def workflow_from_dict(data: dict[str, Any]) -> Workflow:
    """Read back what `workflow_to_dict` gave, exactly; also after a trip through canonical JSON."""
    return msgspec.convert(data, Workflow)


def workflow_hash(workflow: Workflow) -> str:
    """Return the content hash of the workflow's canonical JSON."""
    return hash_json(workflow_to_dict(workflow))
