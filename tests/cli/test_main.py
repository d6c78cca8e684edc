"""The command line's front door."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import sapwood


def test_version_is_one_line() -> None:
    done = subprocess.run([sys.executable, "-m", "sapwood", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("sapwood 0.")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("runz", "'run'"), ("veryfy", "Did you mean 'verify'?"), ("template", "Did you mean 'templates'?")],
)
def test_a_misspelt_command_is_told_with_what_was_meant(typed: str, meant: str) -> None:
    done = subprocess.run([sys.executable, "-m", "sapwood", typed], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"No such command '{typed}'." in done.stderr
    assert meant in done.stderr


def test_ctrl_c_in_any_command_is_130_and_no_traceback(tmp_path: Path) -> None:
    """The command waits for a pipe that nobody writes to."""
    os.mkfifo(tmp_path / "flow.yaml")
    command = [sys.executable, "-m", "sapwood", "check", str(tmp_path / "flow.yaml"), "--project", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_reader(tmp_path / "flow.yaml")
        for _ in range(20):  # one that comes between the opening and the reading is seen only after the reading
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
                break
        else:
            process.kill()
        errors = process.communicate()[1]
    assert process.returncode == 130
    assert "Traceback" not in errors


def wait_for_reader(pipe: Path) -> None:
    """Return when somebody has opened the pipe to read from it."""
    until = time.monotonic() + 20
    while True:
        try:
            os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert time.monotonic() < until, "nobody reads"
            time.sleep(0.02)
        else:
            return


def test_output_that_cannot_be_written_is_one_line_and_exit_code_4(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no disk that is always full")
    for words in (["check", "team"], ["graph", "team"], ["--help"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "sapwood", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert (done.returncode, done.stderr) == (4, "sapwood: could not do it: No space left on device\n"), words


@pytest.mark.parametrize("words", [["graph", "team"], ["--help"], ["context", "team", "todo", "--preview"]])
def test_a_reader_that_has_gone_is_neither_yes_nor_no_and_no_traceback(words: list[str]) -> None:
    command = [sys.executable, "-m", "sapwood", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(20) == 141


def test_a_terminal_that_knows_few_characters_gets_the_others_written_out() -> None:
    command = [sys.executable, "-m", "sapwood", "graph", "team"]
    environ = {**os.environ, "PYTHONIOENCODING": "latin-1:strict"}
    done = subprocess.run(command, env=environ, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u25cf  todo (agent scripted) -> docs/TODO.md\n" in done.stdout


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_a_run_whose_outputs_were_closed_before_it_began_is_a_run(closed: tuple[int, ...], tmp_path: Path) -> None:
    words = [sys.executable, "-m", "sapwood", "run", "single", "-i", "task=x", "--project", str(tmp_path)]
    shut = " ".join(f"{number}>&-" for number in closed)
    done = subprocess.run(["sh", "-c", f'"$@" {shut}', "sh", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with sapwood.open(tmp_path / ".sapwood" / "sapwood.db") as store:
        assert store.runs()[0].status == "completed"
        assert store.verify().is_ok
