"""`runs`, `show`, `verify` and `reconstruct`, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import sapwood
from sapwood.cli.main import cli
from sapwood.core.record import Record
from sapwood.runtime.session import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    with sapwood.open(tmp_path / "s.db") as store:
        store.templates.register("tpl.x.y", "Hi {{ a }}", variables=["a"])
        with store.record() as run, run.agent("pick") as agent:
            agent.prompt("tpl.x.y", args={"a": "\x1b[31mred"})
            agent.tool_call("grep", input=1, output=2)
            agent.report("done")
    return run


def call(tmp_path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [arguments[0], "--store", str(tmp_path / "s.db"), *arguments[1:]])


def test_runs_lists_the_run(run: Run, tmp_path: Path) -> None:
    assert "completed" in call(tmp_path, "runs").output
    assert json.loads(call(tmp_path, "runs", "--json").output)["key"] == run.key.text


def test_show_prints_the_tree_with_nothing_that_a_terminal_obeys_and_raw_the_exact_bytes(
    run: Run, tmp_path: Path
) -> None:
    shown = call(tmp_path, "show", run.key.text)
    assert "RenderedPrompt" in shown.output
    assert "\x1b" not in shown.output
    prompt = next(record for record in _records(tmp_path, run) if record.kind == "RenderedPrompt")
    assert call(tmp_path, "show", prompt.key.text, "--raw").stdout_bytes == b"Hi \x1b[31mred"
    assert call(tmp_path, "show", run.key.text, "--depth", "0").output.count("\n") == 1
    assert "--after" in call(tmp_path, "show", run.key.text, "--limit", "2").output


def test_verify_says_yes_with_0_and_no_with_1(run: Run, tmp_path: Path) -> None:
    found = json.loads(call(tmp_path, "verify", run.key.text, "--json").output)
    assert found["ok"] is True
    assert call(tmp_path, "verify").exit_code == 0
    assert call(tmp_path, "verify", run.key.text, "--head", found["head"]).exit_code == 0
    assert call(tmp_path, "verify", run.key.text, "--head", "00" * 32).exit_code == 1


def test_reconstruct_rebuilds_the_prompt(run: Run, tmp_path: Path) -> None:
    told = json.loads(call(tmp_path, "reconstruct", run.key.text, "--json").output)
    assert told["prompts"][0]["is_rebuilt"] is True
    assert told["tools"][0]["tool"] == "grep"


def _records(tmp_path: Path, run: Run) -> list[Record]:
    with sapwood.open(tmp_path / "s.db") as store:
        return list(store.load(run.key).walk())
