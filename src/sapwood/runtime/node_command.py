"""A command node: one program, its exit code the outcome, what it prints its report."""

from __future__ import annotations

from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import CommandNode
from sapwood.runtime.journal import Journal
from sapwood.runtime.world import Done, Work


async def run_program(node: CommandNode, _work: Work, journal: Journal) -> Done:
    exit_code, output = await journal.world.run_command(node)
    result = ProviderResult(report=output, content_type="text", data={"exit_code": exit_code})
    is_fine = exit_code in node.success_codes
    return Done(result, error=None if is_fine else f"{node.run[0]} ended with exit code {exit_code}")
