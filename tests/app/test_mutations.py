"""Mutations of a good workflow file: each is refused with a position and a reason, or runs to an end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sapwood.app.project import open_project_store
from sapwood.app.runner import Runner
from sapwood.cli.main import cli
from sapwood.core.mistakes import Mistake
from sapwood.core.workflow import Workflow
from sapwood.errors import InvalidWorkflow, SapwoodError
from sapwood.runtime.overview import Overview
from sapwood.settings import Settings
from tests.app.project import make_project
from tests.conftest import Dose
from tests.workflows.mutations import mutate

GOOD = (Path(__file__).parent / "everything.yaml").read_text()
PATIENCE_S = 8.0
OF_TYPE: dict[str, Any] = {"string": "sap", "integer": 1, "number": 1.5, "boolean": True, "list": ["a"], "object": {}}


@contextmanager
def answering(runner: Runner) -> Iterator[None]:
    """Answer every gate of every open run with the first answer it offers."""
    overview, is_over = Overview(runner.store), threading.Event()

    def answer() -> None:
        while not is_over.wait(0.05):
            for row in runner.store.runs(limit=1, status="running"):
                for node in overview.load(row.key).nodes:
                    if node.question is not None:
                        runner.control.answer(row.key.text, node.key, node.answers[0], "a test")

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.mark.torture(short=25, full=400)
def test_a_mutated_file_is_refused_with_a_position_and_a_reason_or_runs(tmp_path: Path, dose: Dose) -> None:
    project = make_project(tmp_path, GOOD)
    path = project / "flow.yaml"
    refused = ran = 0
    store = open_project_store(str(project / ".sapwood" / "sapwood.db"))
    with store, Runner(store, Settings(project=project)) as runner, answering(runner):
        assert outcome_of(runner, path) == "completed"
        for number in range(dose.count):
            path.write_bytes(mutate(GOOD, dose.rng).encode())
            try:
                outcome = outcome_of(runner, path)
            except Exception as error:
                (tmp_path / f"mutant{number}.yaml").write_bytes(path.read_bytes())
                dose.failures.append(f"mutation {number}: {type(error).__name__}: {error}")
                continue
            refused, ran = refused + (outcome == "refused"), ran + (outcome != "refused")
            checked = CliRunner().invoke(cli, ["check", str(path), "--project", str(project)])
            if checked.exit_code != (outcome == "refused") or str(path) not in checked.output:
                dose.failures.append(f"mutation {number}: check says {checked.exit_code} {checked.output}")
    assert refused
    assert ran


def outcome_of(runner: Runner, path: Path) -> str:
    """Return `refused`, or the status the run ended with; raise for everything else."""
    try:
        workflow = runner.load(path)
    except InvalidWorkflow as error:
        for finding in error.findings:
            assert isinstance(finding, Mistake)
            assert finding.line >= 1
            assert finding.column >= 1
            assert finding.what
        return "refused"
    run = runner.start(workflow, needed(workflow))
    status = runner.wait(run, PATIENCE_S)
    if status is None:
        runner.control.cancel(run.text)
        status = runner.wait(run, PATIENCE_S)
    assert status in ("completed", "failed", "cancelled"), status
    assert runner.store.verify(run).is_ok
    return status


def needed(workflow: Workflow) -> dict[str, Any]:
    return {one.name: OF_TYPE[one.type] for one in workflow.inputs if one.required}


@pytest.mark.mutant
def test_an_error_that_is_no_refusal_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path, GOOD)
    store = open_project_store(str(project / ".sapwood" / "sapwood.db"))
    with store, Runner(store, Settings(project=project)) as runner:
        monkeypatch.setattr(runner, "load", lambda _path: (_ for _ in ()).throw(SapwoodError("no position")))
        with pytest.raises(SapwoodError):
            outcome_of(runner, project / "flow.yaml")
