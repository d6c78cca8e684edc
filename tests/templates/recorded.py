"""Executions recorded through the public interface: what template queries read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sapwood.core.keys import ArtifactKey
from sapwood.core.prompt import Contribution, Contributor
from sapwood.runtime.session import Store

PromptCall = tuple[Any, Mapping[str, Any], Sequence[Contribution | Contributor]]


def record_run(store: Store, prompts: Sequence[PromptCall], outcomes: Mapping[str, bool]) -> ArtifactKey:
    """Record an execution that rendered these prompts and had these outcomes; return its key."""
    with store.record() as run:
        with run.agent("one") as agent:
            for template, args, contributions in prompts:
                agent.prompt(template, args, contributions)
        for name, passed in outcomes.items():
            run.outcome(name, passed=passed)
    return run.key
