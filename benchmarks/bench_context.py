"""Context assembly: from a store with 1,000 candidates, against the same policy in JavaScript, and non-ASCII text.

Each figure is the median of many rounds. The JavaScript is `handoff_reference.mjs`, on the `node` in the path; both
sides build their artifacts (checks included), place them, and end with the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.runtime.context_run import ContextRun

import sapwood
from sapwood.storage.sqlite import SqliteStore

ROUNDS = 400
TEXTS = {
    "ascii": "report alpha beta gamma, <b>delta</b>\n",
    "latin": "réport alpha bêta gamma, <b>dëlta</b>\n",
    "cjk": "文件内容“测试”报告，上下文预算。\n",
    "emoji": "ab \U0001f600 cd \U0001f680\n",
}


def median_us(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        started = time.perf_counter_ns()
        work()
        times.append((time.perf_counter_ns() - started) / 1000)
    return statistics.median(times)


def content(kind: str, units: int) -> str:
    piece = TEXTS[kind]
    size = len(piece.encode("utf-16-le")) // 2
    return piece * (units // size) + "x" * (units % size)


def fields(kind: str, chars: int = 12_000) -> list[dict[str, Any]]:
    return [
        {
            "run_node_id": place,
            "node_key": f"n{place}",
            "sequence_index": place,
            "attempt": 1,
            "artifact_id": place,
            "artifact_type": "report",
            "content_type": "markdown",
            "created_at": "2026-01-01T00:00:00.000Z",
            "content": content(kind, chars),
        }
        for place in range(1, 5)
    ]


def assemble(artifacts: list[dict[str, Any]]) -> sapwood.Handoff:
    return sapwood.assemble_handoff(
        [sapwood.UpstreamArtifact(**one) for one in artifacts],
        workflow_run_id=7,
        target_node_key="pick",
        assembled_at="2026-02-03T04:05:06.789Z",
    )


def in_javascript(artifacts: list[dict[str, Any]]) -> dict[str, Any]:
    script = Path(__file__).with_name("handoff_reference.mjs")
    given = json.dumps({"artifacts": artifacts, "rounds": ROUNDS})
    done = subprocess.run(["node", str(script)], input=given, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def bench_pure() -> None:
    has_node = shutil.which("node") is not None
    ascii_us = 0.0
    for kind in TEXTS:
        artifacts = fields(kind)
        ours: list[float] = []
        theirs: list[float] = []
        digest = hashlib.sha256(b"".join(entry.encode() + b"\0" for entry in assemble(artifacts).entries)).hexdigest()
        for _ in range(5):  # interleaved, so that a busy machine is busy for both
            ours.append(median_us(lambda given=artifacts: assemble(given)))  # type: ignore[misc]
            if has_node:
                answer = in_javascript(artifacts)
                assert answer["entries_sha256"] == digest, "both sides must give the same bytes"
                theirs.append(answer["us"])
        us = min(ours)
        ascii_us = ascii_us or us
        line = f"pure, 4 x 12,000 chars, {kind:6}: {us:7.1f} us, {us / ascii_us:4.2f} x ascii"
        print(line + (f", {us / min(theirs):4.2f} x JavaScript ({min(theirs):.1f} us)" if theirs else ", no node here"))


def bench_store(folder: Path) -> None:
    """1,000 candidate artifacts of 12,000 chars each: 8 predecessors with 125 reports, notes and logs."""
    store = SqliteStore(folder / "bench.db")
    run = ContextRun(store)
    for place in range(8):
        kinds = [("report", "note", "log")[number % 3] for number in range(125)]
        run.visit(f"n{place}", *((kind, content("ascii", 12_000)) for kind in kinds), to=("pick",))
    request = run.request("pick")
    times = [median_us(lambda: run.context("pick"), 100) / 1000 for _ in range(5)]
    count = len(sapwood_context(run, request).entries)
    print(f"from SQLite, 4 x 12,000 chars asked, {count} entries, of 1,000 candidates: {min(times):.2f} ms")
    store.close()


def sapwood_context(run: ContextRun, request: Any) -> Any:
    from sapwood.runtime.context import assemble_context

    return assemble_context(run.store, request)


def main() -> None:
    bench_pure()
    with tempfile.TemporaryDirectory() as folder:
        bench_store(Path(folder))
