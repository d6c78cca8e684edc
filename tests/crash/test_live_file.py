"""Nothing may touch the live file behind the back of SQLite; and if something does, it is loud and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.crash.workload import read_back


def touch(path: Path, how: str, mutant: str = "") -> tuple[list[str], set[str]]:
    """Return which scope ends were refused, and which calls that returned are lost."""
    command = [sys.executable, "-m", "tests.crash.behind_the_back", str(path), how, mutant]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -9, done.stderr
    lines = done.stdout.splitlines()
    refused = [line.split()[1] for line in lines if line.startswith("refused")]
    returned = {line for line in lines if not line.startswith("refused")}
    assert len(returned) == 45
    found = read_back(path)
    assert found.problems == []
    return refused, returned - set(found.tokens)


@pytest.mark.parametrize("how", ["nothing", "store"])
def test_a_second_store_on_the_file_does_no_harm(tmp_path: Path, how: str) -> None:
    assert touch(tmp_path / "s.db", how) == ([], set())


def test_a_log_that_was_removed_under_us_is_noticed_by_the_next_commit_and_nothing_is_lost(tmp_path: Path) -> None:
    assert touch(tmp_path / "s.db", "plain") == (["StoreDamaged"] * 10, set())


@pytest.mark.mutant
def test_without_a_look_at_the_log_acknowledged_calls_are_lost(tmp_path: Path) -> None:
    refused, lost = touch(tmp_path / "s.db", "plain", "log_not_watched")
    assert refused == []
    assert len(lost) >= 20


AUDITED = """
import os, sys
import sapwood
from click.testing import CliRunner
from sapwood.cli.main import cli
path = os.path.realpath(sys.argv[1])
opened = []

def hook(event, arguments):
    if event == "open" and arguments[0] == path and not (arguments[2] & os.O_EXCL):
        opened.append(arguments)

with sapwood.open(path) as store:
    sys.addaudithook(hook)
    store.templates.register("tpl.a.b", "Hi {{ a }}", variables=["a"])
    with store.record(inputs={"a": "x" * 100_000}) as run, run.agent("n") as agent:
        agent.prompt("tpl.a.b", args={"a": 1})
        agent.report("done")
    store.load(run.key); store.verify(); store.reconstruct(run.key); store.runs()
    for command in (["runs"], ["show", run.key.text], ["verify"], ["reconstruct", run.key.text], ["doctor"]):
        result = CliRunner().invoke(cli, [*command, "--store", path])
        print(command[0], result.exit_code, result.output if result.exit_code else "")
    if len(sys.argv) > 2:
        open(path, "rb").close()
print(opened)
"""


def audit(path: Path, *more: str) -> list[str]:
    command = [sys.executable, "-c", AUDITED, str(path), *more]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_no_call_and_no_command_opens_the_live_file(tmp_path: Path) -> None:
    lines = audit(tmp_path / "s.db")
    assert lines == ["runs 0 ", "show 0 ", "verify 0 ", "reconstruct 0 ", "doctor 0 ", "[]"]


@pytest.mark.mutant
def test_an_open_of_the_live_file_is_seen(tmp_path: Path) -> None:
    assert "s.db" in audit(tmp_path / "s.db", "open it")[-1]
