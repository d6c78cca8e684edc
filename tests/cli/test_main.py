"""The command line's front door."""

from __future__ import annotations

import subprocess
import sys


def test_version_is_one_line() -> None:
    done = subprocess.run([sys.executable, "-m", "sapwood", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("sapwood 0.")
