"""The table of node kinds: who does a node's work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from sapwood.core.workflow import (
    AgentNode,
    CommandNode,
    GateNode,
    JoinNode,
    Node,
    SpawnNode,
    WorkflowNode,
    WriteFileNode,
)
from sapwood.runtime.journal import Journal
from sapwood.runtime.node_agent import run_agent
from sapwood.runtime.node_command import run_program
from sapwood.runtime.node_gate import ask
from sapwood.runtime.node_join import gather
from sapwood.runtime.node_spawn import join_children
from sapwood.runtime.node_workflow import end_sub_workflow
from sapwood.runtime.node_write_file import write_file
from sapwood.runtime.world import Done, Work

Performer = Callable[[Any, Work, Journal], Awaitable[Done]]

PERFORMERS: Final[Mapping[type[Node], Performer]] = {
    AgentNode: run_agent,
    CommandNode: run_program,
    GateNode: ask,
    JoinNode: gather,
    SpawnNode: join_children,
    WorkflowNode: end_sub_workflow,
    WriteFileNode: write_file,
}


async def perform(work: Work, journal: Journal) -> Done:
    """Do the node's work."""
    return await PERFORMERS[type(work.node)](work.node, work, journal)
