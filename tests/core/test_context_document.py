"""docs/context.md: its workflow runs, its console shows what the commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import sapwood
from sapwood.cli.main import cli
from tests.app.project import make_project

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "context.md").read_text()


def test_the_console_shows_what_the_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (flow,) = re.findall(r"^```yaml\n(.*?)^```$", TEXT, flags=re.M | re.S)
    project = make_project(tmp_path / "p", flow)
    monkeypatch.chdir(project)
    run = sapwood.run_workflow("flow.yaml")
    shown = "".join(re.findall(r"^```console\n(.*?)^```$", TEXT, flags=re.M | re.S))
    calls = re.findall(r"^\$ sapwood (.*)\n((?:(?!\$ ).*\n)+)", shown, flags=re.M)
    assert len(calls) == 3
    for words, expected in calls:
        given = [run.text if word == "RUN" else word for word in words.split()]
        result = CliRunner(env={"COLUMNS": "100"}).invoke(cli, given)
        assert without_ids(result.output) == without_ids(expected)


def without_ids(text: str) -> list[str]:
    """Branches get the ids of their reports in the order in which they end."""
    return [re.sub(r"(?<=  report  )\d", "N", line.rstrip()) for line in text.splitlines()]
