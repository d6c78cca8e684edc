"""The command line's front door."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def test_version_is_one_line() -> None:
    done = subprocess.run([sys.executable, "-m", "sapwood", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("sapwood 0.")


def test_ctrl_c_in_any_command_is_130_and_no_traceback(tmp_path: Path) -> None:
    """The command waits for a pipe that nobody writes to."""
    os.mkfifo(tmp_path / "flow.yaml")
    command = [sys.executable, "-m", "sapwood", "check", str(tmp_path / "flow.yaml"), "--project", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in errors
