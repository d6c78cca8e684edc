"""The engine's own SQLite file, opened the way it has to be: WAL, no lost locks, and `unixepoch` on an old library."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=30000", "foreign_keys=ON")
FIRST_WITH_SUBSEC = (3, 42)


def open_database(path: Path) -> sa.Engine:
    """Return an engine for the file at `path`, which is made readable by its owner only."""
    path.touch(mode=0o600)
    address = sa.URL.create("sqlite", database=str(path))  # as text a `?` or `%` in the path would mean something
    database = sa.create_engine(address, pool_size=4, max_overflow=4)
    sa.event.listen(database, "connect", _prepare)
    return database


@contextmanager
def whole_migrations(database: sa.Engine) -> Iterator[None]:
    """While the block runs, tables are made in a transaction: a process that dies over it leaves none of them.

    Python's own transactions begin with the first INSERT; what dbos creates before it would stay, half made, for ever.
    """
    sa.event.listen(database, "begin", _begin)
    try:
        yield
    finally:
        sa.event.remove(database, "begin", _begin)


def _begin(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = "IMMEDIATE"
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    if sqlite3.sqlite_version_info < FIRST_WITH_SUBSEC:
        # An older library answers NULL to unixepoch('subsec'), which dbos writes into columns that refuse NULL.
        connection.create_function("unixepoch", 1, lambda _modifier: round(time.time(), 3))
