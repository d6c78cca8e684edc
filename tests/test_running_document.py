"""docs/running.md: its files are written, its commands run, its refusal compared, its providers' options read."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sapwood import ProviderResult, ProviderRunOptions
from sapwood.providers.command import CommandOptions
from sapwood.settings import Settings
from tests.providers.streams import play
from tests.test_documents import ROOT, blocks

TEXT = (ROOT / "docs" / "running.md").read_text()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    flow, answers, _ = blocks(TEXT, "yaml")
    draft, critique = blocks(TEXT, "jinja")
    folder = tmp_path / "templates" / "agent" / "notes"
    folder.mkdir(parents=True)
    for path, text in {
        tmp_path / "flow.yaml": flow,
        tmp_path / "answers.yaml": answers,
        folder / "draft.jinja": draft,
        folder / "critique.jinja": critique,
    }.items():
        path.write_text(text)
    return tmp_path


def sapwood(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sapwood", *words]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def test_the_commands_run_as_shown(project: Path) -> None:
    (commands,) = blocks(TEXT, "sh")
    for line in commands.splitlines():
        done = sapwood(project, *shlex.split(line)[1:])
        assert done.returncode == 0, line + done.stdout + done.stderr
    assert (project / "docs" / "draft_2.md").read_text() == "Water rises in the sapwood."
    assert "feature completed" in done.stdout


def test_the_python_example_runs(project: Path) -> None:
    example = blocks(TEXT, "python")[0]
    done = subprocess.run([sys.executable, "-c", example], cwd=project, capture_output=True, text=True, check=True)
    assert done.stdout == "completed True\n"


def test_the_refusal_is_the_one_that_is_shown(project: Path) -> None:
    (shown,) = blocks(TEXT, "text")
    flow = project / "flow.yaml"
    flow.write_text(flow.read_text().replace("kind: command", "kind: comand"))
    assert sapwood(project, "check", "flow.yaml").stdout.startswith(shown)


def test_the_provider_that_is_shown_keeps_the_protocol() -> None:
    names: dict[str, Any] = {}
    exec(blocks(TEXT, "python")[1], names)
    items = play(names["Shout"](), "go", ProviderRunOptions(context=("one",)))
    assert items[-1] == ProviderResult(report="CONTEXT:\n[1] ONE\n\nGO")
    assert len(items) == 2


def test_the_options_and_settings_shown_are_real(tmp_path: Path) -> None:
    import yaml

    options = yaml.safe_load(blocks(TEXT, "yaml")[2])["options"]
    assert CommandOptions.read(options).timeout_s == 600
    (tmp_path / "sapwood.toml").write_text(blocks(TEXT, "toml")[0])
    assert Settings.read({"project": str(tmp_path)}, {}).provider == "command"
