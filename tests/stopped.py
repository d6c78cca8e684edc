"""What a process that was stopped leaves behind: its exit code, and what it had printed by then."""

from __future__ import annotations

from pathlib import Path

STOPPED = (-9, -2, -15, 130, 143)
# Ctrl-C before the interpreter itself was up: exit code 1.
NOT_STARTED = ("Fatal Python error: init_import_site", "Could not import runpy module")


def check_stopped(returncode: int, printed: Path) -> None:
    """Raise AssertionError when a process ended by itself, and not well."""
    said = printed.read_bytes().decode(errors="replace")[-2000:]  # a kill may cut a character
    if returncode not in STOPPED and not any(words in said for words in NOT_STARTED):
        raise AssertionError(f"{returncode}: {said}")
