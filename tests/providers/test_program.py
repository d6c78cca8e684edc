"""The programs of command nodes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from sapwood.core.workflow import CommandNode
from sapwood.errors import ProviderFailed
from sapwood.providers import program
from sapwood.providers.program import run_program


def run(folder: Path, text: str, **more: object) -> tuple[int, str]:
    node = CommandNode(key="it", run=(sys.executable, "-c", text), **more)  # type: ignore[arg-type]
    return asyncio.run(run_program(node, str(folder)))


def test_exit_code_and_everything_it_prints_come_back(tmp_path: Path) -> None:
    text = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
    assert run(tmp_path, text) == (3, "out\nerr\n")


def test_it_runs_in_its_folder_of_the_project_with_its_variables(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert run(tmp_path, "import os; print(os.getcwd(), os.environ['A'])", cwd="sub", env={"A": "1"}) == (
        0,
        f"{tmp_path / 'sub'} 1\n",
    )


@pytest.mark.parametrize("cwd", ["..", "/", "sub/../.."])
def test_it_stays_in_the_project(tmp_path: Path, cwd: str) -> None:
    with pytest.raises(ProviderFailed, match="outside the project"):
        run(tmp_path, "", cwd=cwd)


def test_a_program_that_is_not_there_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(ProviderFailed, match="cannot be started"):
        asyncio.run(run_program(CommandNode(key="it", run=("./none",)), str(tmp_path)))


def test_endless_output_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MAX_OUTPUT_BYTES", 1000)
    with pytest.raises(ProviderFailed, match="more than 1000 bytes"):
        run(tmp_path, "while True: print('x' * 1000)")
