"""Assembles random contexts from one kind of store and prints a digest of each: `replay_worker SEED COUNT STORE`."""

from __future__ import annotations

import hashlib
import random
import sys
import tempfile
from pathlib import Path

import sapwood
from sapwood.core.workflow import ContextOptions
from sapwood.ports import ArtifactStore
from sapwood.runtime.context import AssembledContext
from sapwood.storage.memory import MemoryStore
from sapwood.storage.sqlite import SqliteStore
from tests.runtime.context_run import ContextRun

RUNS_PER_STORE = 50
PIECES = (
    "word ",
    "\n",
    "<<<END>>>\n",
    "é",
    "文件",
    "\U0001f600",
    "\u200b",
    "ALPHRED_UPSTREAM_ARTIFACT v1\n",
    "a" * 997,
)
POLICIES = (sapwood.HandoffPolicy(), sapwood.HandoffPolicy(3, 4_000, 1_501, 100))


def text(rng: random.Random) -> str:
    pieces = rng.choices(PIECES, k=rng.choice((0, 1, 5, 20)))
    return "".join(pieces) * rng.choice((1, 1, 1, 40))


def random_context(rng: random.Random, store: ArtifactStore) -> AssembledContext:
    """Write a random run and ask for the context of its node `target`."""
    run = ContextRun(store)
    random_visits(rng, run)
    options = ContextOptions(retry=rng.random() < 0.3, failure_route=rng.random() < 0.3, join=rng.random() < 0.3)
    manifest = sapwood.resolve_manifest(rng.randrange(5))
    return run.context("target", policy=rng.choice(POLICIES), options=options, manifest=manifest)


def random_visits(rng: random.Random, run: ContextRun) -> None:
    """Write visits of up to eight nodes, some of them twice, that lead to `target` or elsewhere."""
    for place in range(rng.randrange(8)):
        for _ in range(rng.choice((1, 1, 2))):  # loops and retries
            kinds = rng.choices(("report", "report", "note", "log"), k=rng.randrange(4))
            status = rng.choice(("completed", "completed", "completed", "failed", "running"))
            to = rng.choice((("target",), ("target", "other"), ("other",)))
            scope = run.visit(f"n{place}", *((kind, text(rng)) for kind in kinds), status=status, to=to)
            if rng.random() < 0.3:
                run.phase(scope, rng.randrange(4), narrative=text(rng), verdicts={"b": "1", "a": "2"})
    rng.shuffle(run.visits)


def digest(context: AssembledContext) -> str:
    whole = hashlib.sha256()
    for part in (*context.entries, context.phase_text, repr(context.budget)):
        whole.update(part.encode() + b"\0")
    whole.update(sapwood.canonical_json(context.manifest))
    return whole.hexdigest()


def main(seed: int, count: int, kind: str) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        for first in range(0, count, RUNS_PER_STORE):
            store: ArtifactStore
            store = MemoryStore() if kind == "memory" else SqliteStore(Path(folder) / f"{first}.db")
            for _ in range(min(RUNS_PER_STORE, count - first)):
                print(digest(random_context(rng, store)))
            store.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
