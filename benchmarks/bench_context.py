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
from functools import partial
from pathlib import Path
from typing import Any

from tests.runtime.context_run import ContextRun

import sapwood
from sapwood.storage.sqlite import SqliteStore

ROUNDS = 400
TEXTS = {
    "ascii": "report alpha beta gamma, <b>delta</b>\n",
    "latin": "réport alpha bêta gamma, <b>dëlta</b>\n",
    "quotes": "It didn’t stop — “not once”, he said, and faced a bad decade.\n",
    "han": "文件内容测试报告，上下文预算。\n",
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


def build(artifacts: list[dict[str, Any]]) -> list[sapwood.UpstreamArtifact]:
    return [sapwood.UpstreamArtifact(**one) for one in artifacts]


def assemble(artifacts: list[sapwood.UpstreamArtifact]) -> sapwood.Handoff:
    return sapwood.assemble_handoff(
        artifacts,
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
    """Time placing alone (`place`), and with building and checking the four artifacts (`whole`), on both sides."""
    has_node = shutil.which("node") is not None
    first: dict[str, float] = {}
    for kind in TEXTS:
        given = fields(kind)
        built = build(given)
        digest = hashlib.sha256(b"".join(entry.encode() + b"\0" for entry in assemble(built).entries)).hexdigest()
        ours: dict[str, list[float]] = {"place": [], "whole": []}
        theirs: dict[str, list[float]] = {"place": [], "whole": []}
        for _ in range(5):  # interleaved, so that a busy machine is busy for both
            ours["place"].append(median_us(partial(assemble, built)))
            ours["whole"].append(median_us(partial(_whole, given)))
            answer = in_javascript(given) if has_node else {}
            assert answer.get("entries_sha256", digest) == digest, "both sides must give the same bytes"
            for name in theirs:
                theirs[name].append(answer.get(name, float("nan")))
        for name, times in ours.items():
            us, js = min(times), min(theirs[name])
            first.setdefault(name, us)
            print(
                f"{name}, 4 x 12,000 chars, {kind:6}: {us:6.1f} us, {us / first[name]:4.2f} x ascii,"
                f" {us / js:4.2f} x JavaScript ({js:.1f} us)"
            )


def _whole(given: list[dict[str, Any]]) -> sapwood.Handoff:
    return assemble(build(given))


def bench_store(folder: Path) -> None:
    """8 predecessors with 125 reports, notes and logs each; the four reports asked for are those of the policy."""
    store = SqliteStore(folder / "bench.db")
    run = ContextRun(store)
    for place in range(8):
        kinds = [("report", "note", "log")[number % 3] for number in range(125)]
        run.visit(f"n{place}", *((kind, content("ascii", 12_000)) for kind in kinds), to=("pick",))
    times = [median_us(partial(run.context, "pick"), 100) / 1000 for _ in range(5)]
    manifest = run.context("pick").manifest
    print(
        f"from SQLite, of 1,000 artifacts of 12,000 chars: {min(times):.2f} ms"
        f" ({manifest['included_chars_total']:,} chars included, {len(manifest['dropped_artifact_ids'])} dropped)"
    )
    store.close()


def main() -> None:
    bench_pure()
    with tempfile.TemporaryDirectory() as folder:
        bench_store(Path(folder))
