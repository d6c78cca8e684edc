"""Ctrl-C, SIGTERM and a closed terminal: noted from the beginning of a command on, obeyed between two of its steps.

Nothing is left half drawn, half recorded or half imported: an exception inside an import may leave the interpreter's
own lock closed for ever.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Final, Self

ASK_TO_END: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop(Exception):
    """The process was asked to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number  # as shells have it


class Stops:
    """Takes the signals over until `end`; once one is being obeyed, further ones change nothing."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self  # signals come to the main thread alone
        for number in ASK_TO_END:
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup wants no end with the terminal
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def check(self) -> None:
        """Raise Stop when the process was asked to end."""
        if self._number is not None:
            raise Stop(self._number)

    def end(self) -> None:
        """Give the signals back."""
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._number = self._number or number
