"""A command node: one program, its exit code the outcome, what it prints its report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from sapwood.core.provider import ProviderResult
from sapwood.core.substitution import substitute_text
from sapwood.core.workflow import CommandNode
from sapwood.runtime.context import load_phase_handoffs
from sapwood.runtime.evidence import command_evidence
from sapwood.runtime.git import changed_files, head_commit
from sapwood.runtime.journal import Journal
from sapwood.runtime.verdicts import known_verdicts
from sapwood.runtime.visits import visits_of
from sapwood.runtime.world import Done, Work


async def run_program(node: CommandNode, work: Work, journal: Journal) -> Done:
    node = _filled(node, work.scope)
    is_merge = node.evidence == "merge"
    before = await asyncio.to_thread(_head, journal) if is_merge else None
    exit_code, output = await journal.world.run_command(node, str(work.folder or "."))
    merge = await asyncio.to_thread(_merged, work, journal, before) if is_merge else None
    result = ProviderResult(report=output, content_type="text", data={"exit_code": exit_code})
    is_fine = exit_code in node.success_codes
    return Done(
        result,
        error=None if is_fine else f"{node.run[0]} ended with exit code {exit_code}",
        products=tuple(command_evidence(node, work, journal, exit_code, merge)),
        about=merge or {},
    )


def _filled(node: CommandNode, scope: Mapping[str, Any]) -> CommandNode:
    """Return the node with values in the place of what its words refer to; no word becomes two."""
    return msgspec.structs.replace(
        node,
        run=tuple(substitute_text(word, scope) for word in node.run),
        cwd=substitute_text(node.cwd, scope),
        env={name: substitute_text(text, scope) for name, text in node.env.items()},
    )


def _head(journal: Journal) -> str | None:
    return None if journal.world.project is None else head_commit(journal.world.project)


def _merged(work: Work, journal: Journal, before: str | None) -> dict[str, Any]:
    """Return what a merge came to: the files that changed, the verdicts it stands on, and the risks still open."""
    project = journal.world.project
    with journal.world.store.artifacts.read() as reader:
        handoffs = load_phase_handoffs(reader, visits_of(work), work.plan.run)
    risks = [risk for handoff in handoffs if isinstance(handoff.open_risks, tuple) for risk in handoff.open_risks]
    return {
        "changed_files": () if project is None or before is None else changed_files(project, before),
        "verdicts": known_verdicts(work, handoffs),
        "risks": tuple(dict.fromkeys(risks)),
    }
