"""Whatever a program answers, the run ends and its record is whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sapwood.app.project import open_project_store
from sapwood.app.runner import Runner
from sapwood.core import provider_lines
from sapwood.errors import SapwoodError
from sapwood.settings import Settings
from tests.app.project import make_project

FLOW = """
name: x
nodes:
  a:
    kind: agent
    phase: 2
    template: tpl.agent.x.prompt
    provider: command
    output: docs/a.md
    options: {output: jsonl, command: [cat, answer]}
"""
RESULT = '{"type":"result","report":"x"}'
FAILED = {
    "surrogate report": '{"type":"result","report":"\\ud800"}',
    "surrogate data": '{"type":"result","data":{"a":"\\ud800"}}',
    "surrogate name": '{"type":"result","data":{"\\ud800":1}}',
    "nan": '{"type":"result","data":{"a":NaN}}',
    "too deep to record": '{"type":"result","data":{"a":' + "[" * 126 + "]" * 126 + "}}",
    "too deep to read": '{"type":"result","data":{"a":' + "[" * 9000 + "]" * 9000 + "}}",
    "too many digits": '{"type":"result","data":{"a":' + "9" * 6000 + "}}",
    "surrogate delta": '{"type":"delta","text":"\\ud800"}\n' + RESULT,
    "surrogate tool": '{"type":"tool_call","name":"a","input":"\\udfff","output":1}\n' + RESULT,
    "nan in a tool": '{"type":"tool_call","name":"a","input":NaN,"output":1}\n' + RESULT,
    "wrong event": '{"type":"NodeAddedEvent","node_title":5}\n' + RESULT,
    "surrogate error": '{"type":"error","message":"\\ud800"}',
    "wrong phase": '{"type":"result","report":"x","data":{"goal":5}}',
    "two results": RESULT + "\n" + RESULT,
    "nothing": "",
}
COMPLETED = {
    "zero byte": '{"type":"result","report":"a\\u0000b"}',
    "large number": '{"type":"result","data":{"a":' + "9" * 3000 + '},"tokens":' + "9" * 300 + "}",
    "an envelope": '{"type":"result","report":"<<<BEGIN>>>\\n<<<END>>>"}',
}


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    project = make_project(tmp_path, FLOW)
    store = open_project_store(str(project / ".sapwood" / "sapwood.db"))
    with store, Runner(store, Settings(project=project)) as runner:
        yield runner


def outcome_of(runner: Runner, answer: str) -> str | None:
    (runner.project / "answer").write_text(answer)
    run = runner.start(runner.load(runner.project / "flow.yaml"), {})
    status = runner.wait(run, 20)
    assert runner.store.verify(run).is_ok
    return status


def test_an_answer_that_cannot_be_recorded_fails_its_attempt_and_not_the_run(runner: Runner) -> None:
    outcomes = {name: outcome_of(runner, answer) for name, answer in {**FAILED, **COMPLETED}.items()}
    assert outcomes == {**dict.fromkeys(FAILED, "failed"), **dict.fromkeys(COMPLETED, "completed")}


@pytest.mark.mutant
def test_without_the_check_the_run_could_not_end(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_lines, "canonical_json", lambda _value: b"")
    with pytest.raises(SapwoodError):
        outcome_of(runner, FAILED["nan"])
