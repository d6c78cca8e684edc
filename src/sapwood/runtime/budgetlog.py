"""The budget log of a project: one JSON line for each token budget that was applied to a phase's context."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from sapwood.core.keys import ArtifactKey
from sapwood.core.tokens import ContextBudgetResult

LOG_PATH: Final = Path(".agents/rpi/context-budget-log.jsonl")


def append_budget_line(project: Path, run: ArtifactKey, phase: int, result: ContextBudgetResult, now: str) -> None:
    """Append the result in one write, so that lines of several processes never mix."""
    line = {
        "run_id": run.text,
        "phase": phase,
        "original_tokens": result.original_tokens,
        "budget_tokens": result.budget_tokens,
        "truncated_tokens": result.truncated_tokens,
        "was_truncated": result.was_truncated,
        "ts": now,
    }
    path = project / LOG_PATH
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, json.dumps(line, separators=(",", ":")).encode() + b"\n")
    finally:
        os.close(descriptor)
