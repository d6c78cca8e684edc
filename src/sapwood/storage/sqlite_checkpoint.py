"""Keeping the log short: a thread moves it into the file beside the commits, and one commit moves what came meanwhile.

SQLite writes a log from its start again only when all of it has been moved. A thread alone never gets that done while
commits go on: the log grows, and is moved again and again. What is left for the one commit is small.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Final

from sapwood.storage.sqlite_file import connect, set_sync, typed_errors

CHECKPOINT_PAGES: Final = 2048  # 16 MB of log

logger = logging.getLogger("sapwood.storage")


class Checkpoints:
    """The checkpoints of one store with a log. `inside` counts a thread among those that a fork has to wait for."""

    def __init__(self, path: Path, inside: Callable[[], AbstractContextManager[None]]) -> None:
        self._path = path
        self._inside = inside
        self._thread: threading.Thread | None = None
        self._due_pages = CHECKPOINT_PAGES

    def after_commit(self, writer: Any, log_pages: int) -> None:
        """Begin a checkpoint when one is due, or end the one whose thread is done. Only while holding the write lock.

        The commit before it has happened: nothing here may say otherwise.
        """
        if self._thread is not None:
            if self._thread.is_alive():
                return
            self._thread = None
            if log_pages >= CHECKPOINT_PAGES:
                self._move_here(writer)
            self._due_pages = log_pages + CHECKPOINT_PAGES  # should a reader keep the log from its start
        elif log_pages < CHECKPOINT_PAGES:
            self._due_pages = CHECKPOINT_PAGES
        elif log_pages >= self._due_pages:
            self._start(writer)

    def wait(self) -> None:
        """Return when no thread is at work."""
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def leave_to_parent(self) -> None:
        """In a forked child: the thread is the parent's."""
        self._thread = None

    def _start(self, writer: Any) -> None:
        self._thread = threading.Thread(target=self._run, name="sapwood-checkpoint", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the system gives out no more threads
            self._thread = None
            self._move_here(writer)

    def _move_here(self, writer: Any) -> None:
        with self._failures_logged():
            _move_log(writer)

    def _run(self) -> None:
        with self._inside(), self._failures_logged(), closing(connect(self._path)) as connection:
            set_sync(connection, "wal")
            _move_log(connection)

    @contextmanager
    def _failures_logged(self) -> Iterator[None]:
        try:
            with typed_errors(str(self._path)):
                yield
        except Exception:
            logger.exception("a checkpoint of %s failed; its log stays and is tried again", self._path)


def _move_log(connection: Any) -> None:
    """Move what can be moved without holding up anybody; what cannot, the next checkpoint does."""
    connection.execute("pragma wal_checkpoint(passive)").fetchall()
