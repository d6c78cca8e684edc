"""`sapwood run` and what belongs to it, as a person or a script uses them."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import sapwood
from sapwood.app.runner import Runner
from sapwood.cli.main import cli
from sapwood.core.keys import ArtifactKey
from sapwood.errors import SapwoodError
from tests.app.project import make_project

FLOW = """
name: feature
inputs: {topic: {type: string, required: true}, size: {type: integer, default: 3}}
defaults: {options: {script: answers.yaml}}
nodes:
  draft: {kind: agent, template: tpl.agent.x.prompt, args: {topic: "${inputs.topic}"}, attempts: 2, backoff: {first_s: 0}}
  check: {kind: command, run: [echo, fine]}
edges:
  - {from: draft, to: check}
"""
ANSWERS = "answers: {draft: [{fail: out of memory}, {report: a draft, tokens: 1200}]}"
SLOW = "answers: {draft: [{report: a draft, delay_s: 2}]}"
GATE = """
name: ask
nodes:
  review: {kind: gate, ask: "Ship it?"}
  ship: {kind: agent, template: tpl.agent.x.prompt}
edges:
  - {from: review, to: ship, when: "decision == 'approved'"}
"""


STARTED: list[subprocess.Popen[str]] = []


def invoke(*words: str) -> Result:
    """Run a command in this process; a typed error becomes its exit code, as `main` does it."""
    result = CliRunner().invoke(cli, list(words))
    if isinstance(result.exception, SapwoodError):
        result.exit_code = result.exception.exit_code
    elif result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def start(project: Path, *words: str) -> subprocess.Popen[str]:
    """Start the program in a process of its own."""
    command = [sys.executable, "-m", "sapwood", *words, "--project", str(project)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    STARTED.append(process)
    return process


@pytest.fixture(autouse=True)
def _nobody_stays_behind() -> Iterator[None]:
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def status_of(project: Path) -> tuple[str, str]:
    with sapwood.open(project / ".sapwood" / "sapwood.db") as store:
        (row,) = store.runs()
        assert store.verify(row.key).is_ok
        return row.key.text, row.status


def wait_for(is_so: Callable[[], Any], what: str) -> Any:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if found := is_so():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within 20 s: {what}")


def open_question(project: Path) -> str | None:
    """Return the run whose gate waits for an answer."""
    if not (project / ".sapwood" / "sapwood.db").exists():
        return None
    with sapwood.open(project / ".sapwood" / "sapwood.db") as store, store.artifacts.read() as reader:
        for row in store.runs():
            if any(claim.role == "delivery" for claim in reader.list_claims(row.key)):
                return row.key.text
    return None


def test_a_run_prints_each_change_and_how_it_ended(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW, answers=ANSWERS)
    result = invoke("run", str(project / "flow.yaml"), "-i", "topic=sap", "--project", str(project))
    assert result.exit_code == 0
    run, status = status_of(project)
    assert status == "completed"
    lines = result.output.splitlines()
    assert lines[0] == f"run {run}"
    assert any("draft  completed, attempt 2" in line and "1,200 tokens" in line for line in lines)
    assert any("check  completed" in line for line in lines)
    assert "feature completed" in result.output
    assert lines[-1] == f"look at it with: sapwood show {run} --project {project}"


def test_json_is_one_object_with_every_node(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW, answers=ANSWERS)
    result = invoke("run", str(project / "flow.yaml"), "-i", "topic=sap", "--project", str(project), "--json")
    told = json.loads(result.output)
    assert (told["status"], told["workflow"], told["tokens"]) == ("completed", "feature", 1200)
    assert [(node["key"], node["status"], node["attempts"]) for node in told["nodes"]] == [
        ("draft", "completed", 2),
        ("check", "completed", 1),
    ]
    assert told["run"] == status_of(project)[0]


def test_a_failed_run_has_exit_code_1_and_says_why(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW, answers="answers: {draft: [{fail: no money left}]}")
    result = invoke("run", str(project / "flow.yaml"), "-i", "topic=sap", "--project", str(project))
    assert result.exit_code == 1
    assert "no money left" in result.output
    assert status_of(project)[1] == "failed"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", "nope"], 3),
        (["run", "single"], 2),
        (["run", "single", "-i", "task"], 2),
        (["run", "single", "-i", "tsk=x"], 2),
        (["run", "single", "-i", "task=@none.txt"], 2),
        (["run", "single", "--inputs", "none.json"], 2),
        (["resume", "nonsense"], 2),
        (["resume", "ak:01HQXK5V8RPZM4J3NHWGC7SDFG"], 3),
        (["cancel", "ak:01HQXK5V8RPZM4J3NHWGC7SDFG"], 3),
        (["pause", "ak:01HQXK5V8RPZM4J3NHWGC7SDFG"], 3),
        (["answer", "ak:01HQXK5V8RPZM4J3NHWGC7SDFG", "review", "approved"], 3),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else str(value),
)
def test_mistakes_of_the_caller_have_their_exit_codes(tmp_path: Path, words: list[str], code: int) -> None:
    with sapwood.open(tmp_path / "store.db"):
        pass
    place = ["--project", str(tmp_path), "--store", str(tmp_path / "store.db")]
    assert invoke(*words, *place).exit_code == code


def test_a_project_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    for words in (["run", "single", "-i", "task=x"], ["check", "single"], ["resume", "ak:01HQXK5V8RPZM4J3NHWGC7SDFG"]):
        assert invoke(*words, "--project", str(tmp_path / "none")).exit_code == 3
    with pytest.raises(sapwood.NotFound):
        sapwood.run_workflow("single", {"task": "x"}, project=tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-i", "task"], "inputs of workflow single: 'task' is no input; expected NAME=VALUE"),
        (
            ["-i", "task=@none.txt"],
            "inputs of workflow single: task: none.txt cannot be read: No such file or directory",
        ),
        (["--inputs", "none.json"], "inputs of workflow single: none.json cannot be read: No such file or directory"),
        (["--option", "x"], "setting --option: 'x' is no option; expected NAME=VALUE"),
        (["--option", "x=@none"], "setting --option: x: none cannot be read: No such file or directory"),
    ],
)
def test_inputs_that_cannot_be_read_are_said_in_plain_words(tmp_path: Path, words: list[str], told: str) -> None:
    assert str(invoke("run", "single", "--project", str(tmp_path), *words).exception) == told


def test_a_file_of_inputs_that_is_no_yaml_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "inputs.yaml").write_text("a: 1\ntask: [\n")
    result = invoke("run", "single", "--project", str(tmp_path), "--inputs", str(tmp_path / "inputs.yaml"))
    assert "inputs.yaml cannot be read: line 3, column 1: expected the node content" in str(result.exception)


def test_a_run_that_is_refused_leaves_an_empty_folder_empty(tmp_path: Path) -> None:
    single = ["run", "single", "--project", str(tmp_path)]
    given = ["-i", "task=x"]
    more: tuple[list[str], ...] = (
        [],
        ["-i", "topic=x"],
        ["-i", "task=@none.txt"],
        ["--inputs", "none.json"],
        [*given, "--provider", "nobody"],
        [*given, "--option", "x"],
        ["--detach"],
    )
    for words in more:
        assert invoke(*single, *words).exit_code == 2, words
    assert invoke("run", "none.yaml", "--project", str(tmp_path)).exit_code == 3
    with pytest.raises(sapwood.InvalidInputs):
        sapwood.run_workflow("single", {}, project=tmp_path)
    with pytest.raises(sapwood.InvalidInputs):
        sapwood.run_workflow("single", {}, store=tmp_path / "new" / "s.db", project=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_provider_is_refused_before_anything_runs(tmp_path: Path) -> None:
    words = ["run", "single", "-i", "task=x", "--provider", "scriptd", "--project", str(tmp_path)]
    process = start(tmp_path, *words[:-2])
    _, errors = process.communicate()
    assert process.returncode == 2
    assert "did you mean 'scripted'" in errors


def test_inputs_come_from_a_file_and_the_command_line_wins(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW, answers=ANSWERS)
    (tmp_path / "inputs.json").write_text('{"topic": "from the file", "size": 5}')
    (tmp_path / "topic.txt").write_text("from another file")
    place = ["--project", str(project), "--inputs", str(tmp_path / "inputs.json")]
    invoke("run", str(project / "flow.yaml"), "-i", f"topic=@{tmp_path / 'topic.txt'}", *place)
    with sapwood.open(project / ".sapwood" / "sapwood.db") as store, store.artifacts.read() as reader:
        inputs = sorted(record.content for record in reader.load_kinds(store.runs()[0].key, ["Input"]))
    assert any(b"from another file" in content for content in inputs)
    assert any(b"5" in content for content in inputs)


def test_a_file_with_mistakes_is_refused_with_every_place_and_no_traceback(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW.replace("kind: command", "kind: comand").replace("from: draft", "from: drat"))
    process = start(project, "run", str(project / "flow.yaml"), "-i", "topic=x")
    out, errors = process.communicate()
    assert process.returncode == 2
    assert "Traceback" not in out + errors
    assert [line.split(": ")[0] for line in errors.splitlines()] == [
        f"{project / 'flow.yaml'}:7:17",
        f"{project / 'flow.yaml'}:9:12",
    ]


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["ctrl-c", "sigterm", "closed"],
)
def test_a_stopped_run_is_left_whole_and_resume_finishes_it(tmp_path: Path, number: int, code: int) -> None:
    project = make_project(tmp_path, FLOW, answers=SLOW)
    process = start(project, "run", str(project / "flow.yaml"), "-i", "topic=x")
    wait_for(lambda: open_question(project), "the draft is being written")
    process.send_signal(number)
    out, errors = process.communicate(timeout=20)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    run, status = status_of(project)
    assert status == "interrupted"
    assert f"sapwood resume {run}" in out
    (project / "answers.yaml").write_text("answers: {draft: [{report: a draft}]}")
    assert invoke("resume", run, "--project", str(project)).exit_code == 0
    assert status_of(project)[1] == "completed"
    again = invoke("resume", run, "--project", str(project))
    assert (again.exit_code, "feature completed" in again.output) == (0, True)


@pytest.mark.parametrize("way", ["now", "where nobody hears of it"])
def test_ctrl_c_before_the_run_has_begun_ends_with_130_and_begins_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """An exception in a finalizer, or in a callback of the import system, is printed and swallowed."""
    project = make_project(tmp_path, FLOW, answers=ANSWERS)
    load = Runner.load

    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def interrupted(runner: Runner, workflow: str | Path) -> Any:
        if way == "now":
            signal.raise_signal(signal.SIGINT)
        else:
            Finalized()
        return load(runner, workflow)

    monkeypatch.setattr(Runner, "load", interrupted)
    before = signal.getsignal(signal.SIGINT)
    result = invoke("run", str(project / "flow.yaml"), "-i", "topic=x", "--project", str(project))
    assert result.exit_code == 130
    assert signal.getsignal(signal.SIGINT) is before
    assert invoke("runs", "--project", str(project)).output.strip() in ("", "no runs")


def test_with_a_closed_terminal_the_programs_of_a_run_end_too(tmp_path: Path) -> None:
    sleeper = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
    flow = {"name": "long", "nodes": {"slow": {"kind": "command", "run": [sys.executable, "-c", sleeper]}}}
    project = make_project(tmp_path, json.dumps(flow))
    process = start(project, "run", str(project / "flow.yaml"))
    pid = int(wait_for(lambda: (project / "pid").exists() and (project / "pid").read_text(), "the program runs"))
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=20)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_detached_run_prints_its_key_and_ends_by_itself(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW, answers=ANSWERS)
    run = start(project, "run", str(project / "flow.yaml"), "-i", "topic=x", "--detach").communicate()[0].strip()
    wait_for(lambda: status_of(project)[1] == "completed", "completed")
    assert status_of(project)[0] == run
    log = project / ".sapwood" / "logs" / f"{run.removeprefix('ak:')}.log"
    wait_for(lambda: "feature completed" in log.read_text(), "the log says so")
    assert log.stat().st_mode & 0o077 == 0


def test_a_gate_is_answered_from_another_process_and_once(tmp_path: Path) -> None:
    project = make_project(tmp_path, GATE)
    process = start(project, "run", str(project / "flow.yaml"))
    run = wait_for(lambda: open_question(project), "the gate asks")
    place = ["--project", str(project)]
    time.sleep(1.5)  # so that the question has been printed
    assert invoke("answer", run, "review", "perhaps", *place).exit_code == 2
    nobody = invoke("answer", run, "nobody", "approved", *place)
    assert (nobody.exit_code, str(nobody.exception).endswith("not found; open: review")) == (3, True)
    assert invoke("answer", run, "review", "approved", "--who", "me", "-m", "on Monday", *place).exit_code == 0
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "waiting: asks Ship it? (approved | changes_requested)" in out
    assert f"sapwood answer {run} review approved" in out
    assert status_of(project) == (run, "completed")
    late = invoke("answer", run, "review", "changes_requested", *place)
    assert (late.exit_code, late.stderr) == (1, "it was answered before; the first answer stands\n")
    assert "on Monday" in invoke("context", run, "ship", "--entry", "1", *place).output


@pytest.mark.parametrize("error", [KeyError("getpwuid(): uid not found"), OSError("No username set")], ids=repr)
def test_an_account_without_a_name_can_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def nameless() -> str:
        raise error

    project = make_project(tmp_path, GATE)
    process = start(project, "run", str(project / "flow.yaml"))
    run = wait_for(lambda: open_question(project), "the gate asks")
    monkeypatch.setattr("getpass.getuser", nameless)
    assert invoke("answer", run, "review", "approved", "--project", str(project)).exit_code == 0
    process.communicate(timeout=20)
    with sapwood.open(project / ".sapwood" / "sapwood.db") as store, store.artifacts.read() as reader:
        (said,) = (record.content for record in reader.load_kinds(ArtifactKey(run), ["OutcomeEvidence"]))
    assert f"uid {os.getuid()}".encode() in said


def test_a_terminal_that_cannot_redraw_still_shows_the_question(tmp_path: Path) -> None:
    project = make_project(tmp_path, GATE)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "sapwood", "run", str(project / "flow.yaml"), "--project", str(project)]
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "dumb"})
    os.close(theirs)
    try:
        seen = b""
        while b"sapwood answer" not in seen:  # a reader of a terminal that stays silent would wait for the end
            assert select.select([ours], [], [], 20)[0], seen
            seen += os.read(ours, 10_000)
        assert b"asks Ship it? (approved" in seen
        assert b"\x1b" not in seen
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_paused_run_ends_its_process_and_goes_on_later(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW, answers=SLOW)
    process = start(project, "run", str(project / "flow.yaml"), "-i", "topic=x")
    run = wait_for(lambda: open_question(project), "the draft is being written")
    told = invoke("pause", run, "--project", str(project)).output
    assert told == f"paused; when what runs has ended, go on with: sapwood resume {run} --project {project}\n"
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 4
    assert f"sapwood resume {run}" in out
    assert status_of(project)[1] == "paused"
    assert "already" in invoke("pause", run, "--project", str(project)).output
    assert invoke("resume", run, "--project", str(project)).exit_code == 0
    assert status_of(project)[1] == "completed"


def test_cancel_ends_a_run_that_somebody_is_at(tmp_path: Path) -> None:
    project = make_project(tmp_path, GATE)
    process = start(project, "run", str(project / "flow.yaml"))
    run = wait_for(lambda: open_question(project), "the gate asks")
    result = invoke("cancel", run, "--project", str(project))
    assert (result.exit_code, result.output) == (0, "cancelled\n")
    process.communicate(timeout=20)
    assert process.returncode == 1
    assert status_of(project)[1] == "cancelled"
    late = invoke("answer", run, "review", "approved", "--project", str(project))
    assert isinstance(late.exception, sapwood.NotFound)
    assert str(late.exception).endswith("not found; it ended without an answer")


def test_cancel_ends_a_run_that_nobody_is_at(tmp_path: Path) -> None:
    project = make_project(tmp_path, GATE)
    process = start(project, "run", str(project / "flow.yaml"))
    run = wait_for(lambda: open_question(project), "the gate asks")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert status_of(project)[1] == "interrupted"
    assert json.loads(invoke("cancel", run, "--json", "--project", str(project)).output)["status"] == "cancelled"
    assert status_of(project)[1] == "cancelled"
    assert invoke("cancel", run, "--project", str(project)).exit_code == 4
