"""A node that works in a git worktree: made before its work, merged after it, discarded when it came to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from sapwood.core.events import (
    WorktreeBranchedEvent,
    WorktreeCreatedEvent,
    WorktreeDiscardedEvent,
    WorktreeMergedEvent,
)
from sapwood.errors import WorktreeFailed
from sapwood.runtime.journal import Journal
from sapwood.runtime.shielded import shielded
from sapwood.runtime.worktrees import Worktree, create, discard, merge, worktree_of
from sapwood.runtime.world import Done, Work

MAIN = "main"


async def in_worktree(work: Work, journal: Journal, perform: Callable[[Work], Awaitable[Done]]) -> Done:
    """Do the node's work in a worktree of its own. Only what completed reaches the project."""
    tree = await shielded(_open, work, journal)
    try:
        done = await perform(replace(work, folder=tree.folder))
    except (Exception, asyncio.CancelledError) as error:
        await shielded(_discard, work, journal, tree, f"it did not complete: {error}")
        raise
    if done.error is not None:
        await shielded(_discard, work, journal, tree, f"it failed: {done.error}")
        return done
    return await shielded(_merge, work, journal, tree, done)


def _open(work: Work, journal: Journal) -> Worktree:
    project, node = journal.world.project, work.node.key
    if project is None:
        raise WorktreeFailed(node, "a worktree needs a project")
    for delivery in work.attempt.deliveries.values():
        left = worktree_of(project, delivery)
        if delivery != work.delivery and discard(left):
            journal.emit(work.delivery, _discarded(journal, node, left, "its process ended before it did"))
    tree = worktree_of(project, work.delivery)
    create(tree)
    journal.emit(
        work.delivery,
        journal.event(
            WorktreeCreatedEvent, node, worktree_id=tree.id, worktree_path=str(tree.root), worktree_type=MAIN
        ),
        journal.event(
            WorktreeBranchedEvent,
            node,
            original_worktree_id=MAIN,
            branched_worktree_id=tree.id,
            branch_name=tree.branch,
            worktree_type=MAIN,
        ),
    )
    return tree


def _merge(work: Work, journal: Journal, tree: Worktree, done: Done) -> Done:
    node = work.node.key
    try:
        merged = merge(tree, f"{node}, attempt {work.attempt.number} of {work.plan.run}")
    except WorktreeFailed as error:
        _discard(work, journal, tree, str(error))
        raise
    event = journal.event(
        WorktreeMergedEvent,
        node,
        child_worktree_id=tree.id,
        parent_worktree_id=MAIN,
        merge_commit_hash=merged.commit,
        conflict_detected=merged.why_not is not None,
        conflict_files=merged.conflicts,
        worktree_type=MAIN,
    )
    journal.emit(work.delivery, event)
    discard(tree, keep_branch=merged.why_not is not None)
    if merged.why_not is None:
        return done
    journal.emit(work.delivery, _discarded(journal, node, tree, f"its work stays on branch {tree.branch}"))
    return Done.failed(WorktreeFailed(node, f"branch {tree.branch} cannot be merged: {merged.why_not}"))


def _discard(work: Work, journal: Journal, tree: Worktree, reason: str) -> None:
    discard(tree)
    journal.emit(work.delivery, _discarded(journal, work.node.key, tree, reason))


def _discarded(journal: Journal, node: str, tree: Worktree, reason: str) -> WorktreeDiscardedEvent:
    event = journal.event(WorktreeDiscardedEvent, node, worktree_id=tree.id, reason=reason, worktree_type=MAIN)
    assert isinstance(event, WorktreeDiscardedEvent)
    return event
