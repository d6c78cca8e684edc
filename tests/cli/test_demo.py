"""The demo is the first thing a new user sees: it must work, and mean it."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

import sapwood
from sapwood.cli.commands.demo import command


def test_the_demo_shows_a_verified_tree() -> None:
    done = CliRunner().invoke(command)
    assert done.exit_code == 0, done.output
    for word in ("Execution", "RenderedPrompt", "AgentRequest", "Seal", "0 findings"):
        assert word in done.output


def test_the_demo_can_keep_its_run(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    done = CliRunner().invoke(command, ["--store", str(path), "--json"])
    said = json.loads(done.output)
    with sapwood.open(path) as store:
        checked = store.verify(said["run"], head=said["head"])
        assert checked.is_ok
        assert checked.artifacts == said["artifacts"]
