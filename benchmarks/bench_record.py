"""Recording a run, the references: the least that the same bytes cost, and LangGraph's SqliteSaver.

Each contestant runs in a process of its own, shuffled within each round; a ratio is taken within its round, and the
median of the ratios is shown with its range. The peer lives in an environment of its own below `build/`.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.record_workload import STEPS, make_steps, payloads

ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT / "build" / "bench-langgraph"
PEER_PACKAGES = [
    "langgraph-checkpoint-sqlite==3.1.2",
    "langgraph-checkpoint==4.3.2",
    "langchain-core==1.7.2",
    "ormsgpack==1.13.1",
]
NAMES = ["sapwood", "raw_step", "raw_step_tuned", "langgraph_saver"]
ROUNDS = {"W1": 9, "W1p": 5, "W2": 5}

Result = dict[str, Any]


def peer_python() -> str:
    """Return the interpreter of the peer's environment, made on first use."""
    python = PEER / "bin" / "python"
    if not (PEER / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEER)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", *PEER_PACKAGES]
        subprocess.run(pip, check=True)
        (PEER / ".ready").touch()
    return str(python)


def run_one(name: str, workload: str) -> Result:
    """Run one contestant in its own process and folder."""
    python = peer_python() if name == "langgraph_saver" else sys.executable
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix=f"bench-{name}-") as folder:
        command = [python, "-m", "benchmarks.record_contestants", name, workload, folder]
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, cwd=ROOT, env=dict(os.environ, PYTHONHASHSEED="0")
        )
    result: Result = json.loads(done.stdout.splitlines()[-1])
    return result


def run_rounds(workload: str, rounds: int) -> list[dict[str, Result]]:
    found = []
    for _ in range(rounds):
        names = random.sample(NAMES, len(NAMES))
        found.append({name: run_one(name, workload) for name in names})
    return found


def ratios(rounds: list[dict[str, Result]], name: str, reference: str, field: str) -> list[float]:
    return [results[name][field] / results[reference][field] for results in rounds]


def spread(values: list[float], form: str = ".2f") -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def payload_bytes(steps: int) -> int:
    from sapwood import canonical_json

    return sum(
        len(value.encode() if isinstance(value, str) else canonical_json(value))
        for step in make_steps(steps)
        for _, _, value in payloads(step)
    )


def print_table(workload: str, rounds: list[dict[str, Result]]) -> None:
    size = payload_bytes(STEPS[workload])
    print(f"\n{workload}: {STEPS[workload]} steps, {size / 1e6:.1f} MB of payload, {len(rounds)} rounds")
    print(
        "| contestant | wall ms | x raw_step | us/artifact | between scope ends | p99 step ms | load x | file x payload | +MB |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in NAMES:
        middle = {
            field: statistics.median(results[name][field] for results in rounds)
            for field in ("wall_s", "caller_us", "between_us", "step_p99_ms", "file_bytes", "added_mb")
        }
        print(
            f"| {name} | {middle['wall_s'] * 1e3:.1f} | {spread(ratios(rounds, name, 'raw_step', 'wall_s'))}"
            f" | {middle['caller_us']:.1f} | {middle['between_us']:.1f} | {middle['step_p99_ms']:.2f}"
            f" | {spread(ratios(rounds, name, 'raw_step', 'load_s'))} | {middle['file_bytes'] / size:.2f}"
            f" | {middle['added_mb']:.0f} |"
        )


def main() -> None:
    (ROOT / "build").mkdir(exist_ok=True)
    peer_python()
    scale = float(os.environ.get("BENCH_ROUNDS", "1"))
    tables = {workload: run_rounds(workload, max(1, round(rounds * scale))) for workload, rounds in ROUNDS.items()}
    for workload, rounds in tables.items():
        print_table(workload, rounds)
    first, second = tables["W1"], tables["W2"]
    print()
    for name in NAMES:
        growth = [big[name]["wall_s"] / small[name]["wall_s"] for small, big in zip(first, second, strict=False)]
        print(f"{name}: W2 / W1 {spread(growth, '.1f')}")
    print(f"LangGraph's SqliteSaver / raw_step, W1: {spread(ratios(first, 'langgraph_saver', 'raw_step', 'wall_s'))}")


if __name__ == "__main__":
    main()
