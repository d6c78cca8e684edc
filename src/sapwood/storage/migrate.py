"""Brings a store file to the current schema: numbered SQL files, each applied once, after a copy was made."""

from __future__ import annotations

import os
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from sapwood.errors import StoreUnwritable, WrongStore

APPLICATION_ID = 0x53415057  # "SAPW", in the file's header where `file` and SQLite find it


def load_migrations(backend: str) -> list[str]:
    """Return the SQL of every migration of the back-end, in order; the first one makes version 1."""
    folder = files("sapwood.storage.migrations") / backend
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    if [name[:4] for name in names] != [f"{number:04d}" for number in range(1, len(names) + 1)]:
        raise AssertionError(f"migrations are not numbered without a gap: {names}")
    return [(folder / name).read_text(encoding="utf-8") for name in names]


def migrate_sqlite(connection: Any, path: Path, migrations: list[str]) -> None:
    """Bring the file to the version after the last of `migrations`; an older file is copied beside itself first."""
    version = check_sqlite(connection, path, migrations)
    if version == len(migrations):
        return
    if version:
        _copy(connection, path.with_name(f"{path.name}.v{version}.bak"))
    connection.execute("begin immediate")
    try:
        version = check_sqlite(connection, path, migrations)  # another process may have been faster
        for sql in migrations[version:]:
            connection.execute(sql)
        connection.execute(f"pragma application_id = {APPLICATION_ID}")
        connection.execute(f"pragma user_version = {len(migrations)}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:  # a full disk has rolled it back already
            connection.execute("rollback")
        raise


def check_sqlite(connection: Any, path: Path, migrations: list[str]) -> int:
    """Return the file's version, 0 for an empty file; refuse a foreign or a newer one."""
    with connection:  # one view of the file: another process may be making it
        version = connection.execute("pragma user_version").fetchone()[0]
        application = connection.execute("pragma application_id").fetchone()[0]
        is_empty = connection.execute("select count(*) from sqlite_schema").fetchone()[0] == 0
    if not is_empty and application != APPLICATION_ID:
        raise WrongStore(str(path), "it is a database of another program; name another file")
    if version > len(migrations):
        raise WrongStore(str(path), f"it has schema version {version}, this Sapwood knows {len(migrations)}; upgrade")
    return 0 if is_empty else int(version)


def _copy(connection: Any, target: Path) -> None:
    """Copy the whole database through SQLite itself, unless the same upgrade already left a copy.

    It gets its name when all of it is on the disk: what has that name is whole, whenever a process died.
    """
    if target.exists():
        return
    try:
        fd, unfinished = tempfile.mkstemp(prefix=f"{target.name}.", dir=target.parent)  # for its owner only, from now
        try:
            connection.execute("vacuum into ?", (unfinished,))  # SQLite does not sync it
            os.fsync(fd)
            Path(unfinished).rename(target)
        except BaseException:
            Path(unfinished).unlink()
            raise
        finally:
            os.close(fd)
        _sync_folder(target.parent)
    except OSError as error:
        raise StoreUnwritable(str(target), error.strerror or str(error)) from error


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
