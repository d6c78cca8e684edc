"""The table of node kinds: who does a node's work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from sapwood.core.workflow import AgentNode, CommandNode, GateNode, JoinNode, Node
from sapwood.errors import UnsupportedNode
from sapwood.runtime.journal import Journal
from sapwood.runtime.node_agent import run_agent
from sapwood.runtime.node_command import run_program
from sapwood.runtime.node_gate import ask
from sapwood.runtime.node_join import gather
from sapwood.runtime.world import Done, Work

Performer = Callable[[Any, Work, Journal], Awaitable[Done]]

PERFORMERS: Final[Mapping[type[Node], Performer]] = {
    AgentNode: run_agent,
    CommandNode: run_program,
    GateNode: ask,
    JoinNode: gather,
}


async def perform(work: Work, journal: Journal) -> Done:
    """Do the node's work."""
    performer = PERFORMERS.get(type(work.node))
    if performer is None:
        raise UnsupportedNode(work.node.key, work.node.kind)
    return await performer(work.node, work, journal)
