"""What every test may use; above all `dose`, which makes one test both a short check and a long programme."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "sapwood",
    deadline=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("sapwood")

# Started in the background or by nohup, this process ignores signals, and the tests' processes would ignore them too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

ROOT = Path(__file__).resolve().parent.parent
IS_FULL = os.environ.get("SAPWOOD_TORTURE") == "full"


@dataclass
class Dose:
    """How much of a long programme to run, and from which seed; `failures` collects what went wrong."""

    count: int
    seed: int
    rng: random.Random
    failures: list[str] = field(default_factory=list)


@pytest.fixture
def dose(request: pytest.FixtureRequest) -> Iterator[Dose]:
    """Give the count and seed of a test marked `torture(short=…, full=…)`, and write its line of results."""
    mark = request.node.get_closest_marker("torture")
    assert mark is not None, "a test that asks for a dose is marked torture(short=…, full=…)"
    count = int(os.environ.get("SAPWOOD_TORTURE_COUNT") or mark.kwargs["full" if IS_FULL else "short"])
    seed = int(os.environ.get("SAPWOOD_TORTURE_SEED") or random.SystemRandom().randrange(2**32))
    dose = Dose(count, seed, random.Random(seed))
    started = time.monotonic()
    yield dose
    if IS_FULL:
        write_torture_line(request.node.name, dose, time.monotonic() - started)
    assert not dose.failures, f"{len(dose.failures)} failures in {count}, rerun with SEED={seed}: {dose.failures[:3]}"


def write_torture_line(name: str, dose: Dose, seconds: float) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    line = {
        "commit": commit,
        "name": name,
        "seed": dose.seed,
        "count": dose.count,
        "seconds": round(seconds, 1),
        "failures": len(dose.failures),
    }
    folder = ROOT / "torture-results"
    folder.mkdir(exist_ok=True)
    with (folder / "results.jsonl").open("a") as lines:
        lines.write(json.dumps(line) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[None]:  # a seed belongs in every report of a red torture test
    report = yield
    dose = getattr(item, "funcargs", {}).get("dose")
    if isinstance(dose, Dose) and report.failed:  # type: ignore[attr-defined]
        report.sections.append(("torture", f"SEED={dose.seed} COUNT={dose.count}"))  # type: ignore[attr-defined]
    return report
