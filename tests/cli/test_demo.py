"""The demo is the first thing a new user sees: it must work, and mean it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import sapwood
from sapwood.core.artifacts import AgentResult, IngestManifest
from sapwood.core.codec import from_record
from tests.test_documents import ROOT, blocks


def demo(*words: str) -> str:
    command = [sys.executable, "-m", "sapwood", "demo", *words]
    wide = {**os.environ, "COLUMNS": "100"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=wide)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_demo_shows_the_tree_the_context_of_a_node_and_a_verified_record() -> None:
    began = time.monotonic()
    shown = demo()
    assert time.monotonic() - began < 30  # three seconds, on a machine with nothing else to do
    for words in (
        "research  running, attempt 2",
        "critique, attempt 2",
        "interviews.child, attempt 1",
        "final  completed",
    ):
        assert words in shown
    assert "draft, attempt 1, saw 2 entries" in shown
    assert "20,700  12,000  max_chars_per_artifact 12000" in shown
    assert "workspace/leaves.py" in shown
    assert "0 findings" in shown
    assert repeatable(shown).endswith(repeatable(blocks((ROOT / "README.md").read_text(), "text")[0]))


def repeatable(text: str) -> str:
    """Return the lines of `text` as they look, without what differs from run to run.

    That is the head, and the ids of the reports that two branches wrote beside each other.
    """
    without_ids = re.sub(r"(?m)^(\d  \w+ +report  )\d+", r"\1id", text)
    return "\n".join(line.rstrip() for line in without_ids.splitlines() if not line.startswith("head "))


def test_a_kept_demo_has_all_that_was_promised(tmp_path: Path) -> None:
    said = json.loads(demo("--keep", str(tmp_path / "kept"), "--json"))
    assert (said["status"], said["ok"]) == ("completed", True)
    with sapwood.open(tmp_path / "kept" / ".sapwood" / "sapwood.db") as store:
        assert store.verify(said["run"], head=said["head"]).artifacts == said["artifacts"]
        made = [from_record(record) for record in store.load(said["run"]).walk()]
    statuses = [one.status for one in made if isinstance(one, AgentResult)]
    assert statuses.count("failed") == 1
    blocks = [block for one in made if isinstance(one, IngestManifest) for block in one.manifest["artifacts"]]
    assert {block["status"] for block in blocks} == {"written", "rejected"}
    tested = subprocess.run(
        [sys.executable, "workspace/test_leaves.py"], cwd=tmp_path / "kept", check=True, capture_output=True
    )
    assert tested.stdout == b"2 tests passed\n"
    assert not (tmp_path / "outside.sh").exists()


def test_the_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "sapwood", "demo", "--json"]
    subprocess.run(command, env=environment, check=True, capture_output=True, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_the_demo_and_what_it_has_not_done_is_not_asked_for() -> None:
    command = [sys.executable, "-m", "sapwood", "demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("run ak:")
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, "")
    assert "demo interrupted" in out
    assert "The tree it left" not in out
