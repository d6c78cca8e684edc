"""Any command-line agent: what goes in, what comes out, and that nothing of it stays behind."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.errors import ProviderBrokeProtocol, ProviderFailed
from sapwood.providers import groups
from sapwood.providers.command import CommandProvider
from sapwood.providers.stream import Steady
from tests.providers.streams import collect, play, python, texts

ECHO = "import sys; sys.stdout.write(sys.stdin.read().upper())"
CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open(sys.argv[1], "w").write(str(child.pid))
print("started", flush=True)
time.sleep(60)
"""


def run(program: str, **settings: Any) -> list[Any]:
    return play(CommandProvider(), "go", python(program, **settings))


def test_the_prompt_goes_in_by_standard_input_and_text_comes_out() -> None:
    items = run(ECHO)
    assert texts(items) == ["GO"]
    assert items[-1] == ProviderResult("GO")


def test_the_prompt_goes_in_as_an_argument_with_its_context() -> None:
    given = python("import sys; print(sys.argv[1], end='')", prompt="argument")
    with_context = ProviderRunOptions(context=("one",), settings=given.settings)
    assert play(CommandProvider(), "go", with_context)[-1] == ProviderResult("Context:\n[1] one\n\ngo")


def test_the_system_prompt_and_the_node_s_variables_reach_the_program() -> None:
    given = python("import os; print(os.environ['SAPWOOD_SYSTEM_PROMPT'], os.environ['A'], end='')", env={"A": "b"})
    options = ProviderRunOptions(system_prompt="be brief", settings=given.settings)
    assert play(CommandProvider(), "go", options)[-1] == ProviderResult("be brief b")


def test_lines_of_json_are_events_and_a_result() -> None:
    lines = [
        '{"type": "thought", "text": "hm"}',
        '{"type": "delta", "text": "a"}',
        '{"type": "tool_call", "name": "grep", "input": {}, "output": 1}',
        '{"type": "AddMessageEvent", "to_add_message": "more"}',
        '{"type": "result", "report": "done", "decision": "approved", "data": {"n": 1}}',
    ]
    items = run(f"print({chr(10).join(lines)!r})", output="jsonl")
    names = [type(item).__name__ for item in items]
    assert names[:-1] == ["NodeThoughtDeltaEvent", "NodeStreamDeltaEvent", "ToolCallEvent", "AddMessageEvent"]
    assert items[-1] == ProviderResult("done", decision="approved", data={"n": 1})


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("print('no json')", "cannot be used"),
        ("print('[]')", "an object with a type"),
        ("""print('{"type": "nonsense"}')""", "nonsense"),
        ("""print('{"type": "result", "decision": "maybe"}')""", "decision"),
        ("""print('{"type": "error", "message": "no money"}')""", "no money"),
        ("import sys; sys.stdout.buffer.write(b'\\xff')", "not UTF-8"),
        ("import sys; print('x', file=sys.stderr); sys.exit(3)", "exit code 3: x"),
        ("print('x' * 2000)", "more than 1000 bytes"),
    ],
    ids=["text", "list", "type", "decision", "error", "encoding", "exit", "size"],
)
def test_an_answer_that_cannot_be_used_is_a_typed_error(program: str, why: str) -> None:
    with pytest.raises(ProviderFailed, match=why):
        run(program, output="jsonl", max_output_bytes=1000)


def test_a_program_that_ends_without_a_result_breaks_the_protocol() -> None:
    with pytest.raises(ProviderBrokeProtocol, match="without a result"):
        run("", output="jsonl")


def test_a_failed_program_gives_no_result_even_when_it_printed_one() -> None:
    line = '{"type": "result", "report": "done"}'
    with pytest.raises(ProviderFailed, match="exit code 1"):
        run(f"print({line!r}); raise SystemExit(1)", output="jsonl")


def test_an_answer_that_does_not_come_in_time_is_an_error() -> None:
    began = time.monotonic()
    with pytest.raises(ProviderFailed, match=r"within 0\.2 s"):
        run("import time; print('a', flush=True); time.sleep(60)", timeout_s=0.2)
    assert time.monotonic() - began < 5


def test_a_program_that_reads_nothing_of_a_large_prompt_is_fine() -> None:
    assert play(CommandProvider(), "x" * 1_000_000, python("print('ok', end='')"))[-1] == ProviderResult("ok")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "command: expected a list"),
        ({"command": "ls -l"}, "command: expected a list"),
        ({"command": ["a"], "prompt": "file"}, "stdin or argument"),
        ({"command": ["a"], "timeout_s": 0}, "timeout_s"),
        ({"command": ["a"], "colour": 1}, "unknown option 'colour'; allowed: command, prompt"),
        ({"comand": ["a"]}, "unknown option 'comand'; did you mean 'command'"),
        ({"command": ["./no-such-program"]}, "no-such-program cannot be started: No such file or directory$"),
        ({"command": ["a", "b\0"]}, "zero byte"),
        ({"command": ["a"], "model": 3}, "option model: expected a name"),
    ],
    ids=["none", "shell", "prompt", "timeout", "unknown", "misspelt", "missing", "zero", "model"],
)
def test_wrong_options_are_named_and_not_tried_again(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ProviderFailed, match=why) as caught:
        play(CommandProvider(), "go", ProviderRunOptions(settings=settings))
    assert not caught.value.retryable


def test_a_model_for_the_prices_and_a_script_to_be_tried_with_are_no_mistake() -> None:
    given = python("print('ok', end='')", model="some-model", script="answers.yaml", answers=[{"report": "x"}])
    assert play(CommandProvider(), "go", given)[-1] == ProviderResult("ok")


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
    return "State:\tZ" not in status


def gone(pid: int) -> bool:
    for _ in range(100):
        if not is_alive(pid):
            return True
        time.sleep(0.02)
    return False


async def cancel_in_the_middle(pid_file: Path) -> None:
    given = python(CHILD)
    options = ProviderRunOptions(settings={**given.settings, "command": [*given.settings["command"], str(pid_file)]})
    task = asyncio.ensure_future(collect(CommandProvider(), "go", options))
    while not (pid_file.exists() and pid_file.read_text()):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_call_ends_the_program_and_all_it_started(tmp_path: Path) -> None:
    asyncio.run(cancel_in_the_middle(tmp_path / "pid"))
    assert gone(int((tmp_path / "pid").read_text()))


STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(60)
"""


async def begin_stubborn(pid_file: Path) -> asyncio.Task[Any]:
    """Return a call, as the runtime makes it, of a program that ignores politeness; it runs."""
    given = python(STUBBORN)
    options = ProviderRunOptions(settings={**given.settings, "command": [*given.settings["command"], str(pid_file)]})
    task = asyncio.ensure_future(collect(Steady("it", CommandProvider()), "go", options))
    while not pid_file.exists():
        await asyncio.sleep(0.01)
    return task


def was_left(pid_file: Path) -> bool:
    """Tell whether the program lives; it is ended then."""
    program = int(pid_file.read_text())
    is_left = is_alive(program)
    if is_left:
        os.kill(program, 9)
    return is_left


async def cancel_again(pid_file: Path, after_s: float) -> None:
    task = await begin_stubborn(pid_file)
    task.cancel()
    await asyncio.sleep(after_s)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("after_s", [0.0, 0.1])
def test_who_cancels_a_call_again_while_it_ends_gets_a_cancelled_call_whose_program_has_ended(
    after_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "GRACE_S", 0.3)
    asyncio.run(cancel_again(tmp_path / "pid", after_s))
    assert not was_left(tmp_path / "pid")


@pytest.mark.mutant
def test_without_the_group_its_children_would_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def only_the_program(pid: int, number: int) -> None:
        if Path(f"/proc/{pid}").exists():
            os.kill(pid, number)

    monkeypatch.setattr(groups, "signal_group", only_the_program)
    asyncio.run(cancel_in_the_middle(tmp_path / "pid"))
    child = int((tmp_path / "pid").read_text())
    assert is_alive(child)
    os.kill(child, 9)
