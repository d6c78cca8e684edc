"""`sapwood run` is stopped at random moments, in every way a process can be stopped, and `sapwood resume` ends it whole.

The workflow is the demo's: branches, a retry, a fan-out, a join, a loop, written files, a program.
"""

from __future__ import annotations

import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

import sapwood
from sapwood.cli.commands.demo import FILES
from sapwood.core.artifacts import AgentRequest, AgentResult, Delivery
from sapwood.core.codec import from_record
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from tests.conftest import Dose
from tests.stopped import check_stopped

WAYS = ("kill", "kill and no engine", "sigterm", "ctrl-c at the terminal")
MAX_STOPS = 4
RUN_S = 2.0
ATTEMPTS = {
    "plan": 1,
    "research": 2,
    "interviews": 1,
    "interviews.botanist": 1,
    "interviews.forester": 1,
    "interviews.child": 1,
    "gather": 1,
    "draft": 2,
    "critique": 2,
    "tests": 1,
    "final": 1,
}
DOCUMENTS = {"plan.md", "draft_1.md", "draft_2.md", "reviews/review_1.md", "reviews/review_2.md", "final.md"}


@pytest.mark.torture(short=1, full=300)
@pytest.mark.parametrize("way", WAYS)
def test_a_stopped_run_ends_whole(tmp_path: Path, dose: Dose, way: str) -> None:
    all_stops = 0
    for number in range(dose.count):
        project = tmp_path / str(number)
        make_project(project)
        stops = drive(project, dose.rng, way)
        all_stops += stops
        dose.failures += [f"{way} {number} after {stops} stops: {what}" for what in wrong_with(project)]
        shutil.rmtree(project)
    if dose.count >= 20 and all_stops < dose.count:
        dose.failures.append(f"only {all_stops} stops: little was tested")


def make_project(project: Path) -> None:
    """Copy the demo, with agents that answer faster."""
    shutil.copytree(FILES, project)
    answers = project / "answers.yaml"
    answers.write_text(re.sub(r"delay_s: [0-9.]+", "delay_s: 0.05", answers.read_text()))


def drive(project: Path, rng: random.Random, way: str) -> int:
    """Run it and stop it up to four times at random moments, then let it end; return how often it was stopped."""
    stops = 0
    while True:
        run = run_of(project)
        words = ["resume", run] if run else ["run", "flow.yaml", "-i", f"python={sys.executable}"]
        process = start(project, words, way)
        if stops < MAX_STOPS:
            time.sleep(rng.random() * RUN_S)
            stop(process, way, project)
            stops += process.returncode not in (0, None)
        await_end(process, project, 60)
        if process.wait(timeout=0) == 0:
            return stops
        check_stopped(process.returncode, project / "printed")
        if way == "kill and no engine":
            for path in (project / ".sapwood").glob("engine.db*"):
                path.unlink()


def start(project: Path, words: list[str], way: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "sapwood", *words]
    if way != "ctrl-c at the terminal":
        with (project / "printed").open("ab") as printed:
            return subprocess.Popen(command, cwd=project, stdout=printed, stderr=printed)
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    process = subprocess.Popen(
        command,
        cwd=project,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=own_terminal,
    )
    os.close(theirs)
    process.terminal = ours  # type: ignore[attr-defined]
    return process


def own_terminal() -> None:
    """Make the pseudo-terminal the one that Ctrl-C is typed at."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def stop(process: subprocess.Popen[bytes], way: str, project: Path) -> None:
    """Stop the process in this way and wait until it is gone; one that has ended meanwhile is left alone."""
    if way == "sigterm":
        process.send_signal(signal.SIGTERM)
    elif way == "ctrl-c at the terminal":
        terminal: int = process.terminal  # type: ignore[attr-defined]
        if process.poll() is None:
            os.write(terminal, b"\x03")
    else:
        process.kill()
    await_end(process, project, 30)


def await_end(process: subprocess.Popen[bytes], project: Path, seconds: float) -> None:
    """Wait until it is gone, and take what it prints: one whose terminal is full waits for its reader."""
    until = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < until:
        drain(process, project)
        time.sleep(0.02)
    drain(process, project)


def drain(process: subprocess.Popen[bytes], project: Path) -> None:
    """Take what was printed, so that nobody waits for us."""
    if hasattr(process, "terminal"):
        with (project / "printed").open("ab") as printed, suppress(OSError):
            while text := os.read(process.terminal, 1 << 16):
                printed.write(text)


def run_of(project: Path) -> str | None:
    """Return the run that was begun, if any was."""
    if not (project / ".sapwood" / "sapwood.db").exists():
        return None
    with sapwood.open(project / ".sapwood" / "sapwood.db") as store:
        rows = store.runs()
    return rows[0].key.text if rows else None


def wrong_with(project: Path) -> list[str]:
    """Return what is wrong with the one run of the project."""
    with sapwood.open(project / ".sapwood" / "sapwood.db") as store:
        rows = store.runs()
        wrong = [f"{row.key} is {row.status}" for row in rows if row.status != "completed"]
        wrong += [str(finding) for row in rows for finding in store.verify(row.key).findings]
        with store.artifacts.read() as reader:
            kinds = [AgentRequest.__name__, AgentResult.__name__, Delivery.__name__]
            found = [from_record(record) for record in reader.load_kinds(rows[0].key, kinds)]
    if len(rows) != 1:
        wrong.append(f"{len(rows)} runs")
    requests = {one.key: (one.node, one.attempt) for one in found if isinstance(one, AgentRequest)}
    expected = sorted((node, attempt) for node, count in ATTEMPTS.items() for attempt in range(1, count + 1))
    if sorted(requests.values()) != expected:
        wrong.append(f"attempts {sorted(requests.values())}")
    deliveries = {one.key: requests[parent(one)] for one in found if isinstance(one, Delivery)}
    results = {parent(one): deliveries[parent(one)] for one in found if isinstance(one, AgentResult)}
    if Counter(results.values()) != dict.fromkeys(requests.values(), 1):
        wrong.append(f"results {Counter(results.values())}")
    last = {attempt: key for key, attempt in sorted(deliveries.items())}
    wrong += [
        f"{attempt} was delivered again after its result" for key, attempt in results.items() if key != last[attempt]
    ]
    written = {str(path.relative_to(project / "docs")) for path in (project / "docs").rglob("*.md")}
    return wrong + ([] if written == DOCUMENTS else [f"documents {sorted(written)}"])


def parent(artifact: Artifact) -> ArtifactKey:
    assert artifact.key.parent is not None
    return artifact.key.parent
