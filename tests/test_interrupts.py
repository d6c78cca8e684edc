"""Ctrl-C in the first moments."""

from __future__ import annotations

import subprocess
import sys

WATCHED = """
import signal, sys

seen = set()
def watch(event, details):
    if event == "import" and details[0] == "msgspec._core":
        seen.add(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
sys.addaudithook(watch)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
import sapwood
print(seen, signal.pthread_sigmask(signal.SIG_BLOCK, []) == {signal.SIGUSR1})
"""


def test_ctrl_c_waits_while_msgspec_is_imported_and_no_longer() -> None:
    done = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, check=True)
    assert done.stdout == "{True} True\n"
