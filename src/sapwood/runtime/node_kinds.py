"""The table of node kinds: who does a node's work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from sapwood.core.events import ActionCompletedEvent, ActionStartedEvent
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
from sapwood.errors import SapwoodError, StoreError
from sapwood.runtime.in_worktree import in_worktree
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
    """Do the node's work, and tell when it starts and how it ends."""
    node = work.node
    who = node.provider if isinstance(node, AgentNode) else node.kind
    journal.emit(work.delivery, journal.event(ActionStartedEvent, node.key, agent_name=who, action_name=node.kind))
    try:
        if node.worktree:
            done = await in_worktree(work, journal, partial(_perform, journal))
        else:
            done = await _perform(journal, work)
    except StoreError:
        raise
    except SapwoodError as error:
        done = Done.failed(error)
    outcome = "success" if done.error is None else "failure"
    event = journal.event(ActionCompletedEvent, node.key, agent_name=who, action_name=node.kind, outcome_type=outcome)
    journal.emit(work.delivery, event)
    return done


async def _perform(journal: Journal, work: Work) -> Done:
    return await PERFORMERS[type(work.node)](work.node, work, journal)
