"""What is wrong around a store: its SQLite, its place, its permissions, what dead processes left, open runs.

Looking changes nothing: no spool is replayed, no file is upgraded. `seal_interrupted` is the one cure that is offered.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from sapwood.app import spool_folder
from sapwood.core.keys import ArtifactKey
from sapwood.errors import NotFound, RunBusy, SapwoodError, WrongStore
from sapwood.ports import ArtifactStore
from sapwood.runtime.pauses import is_paused
from sapwood.runtime.session import Store
from sapwood.runtime.spool import SUFFIX, is_owner_alive, read_calls
from sapwood.storage.migrate import check_sqlite, load_migrations
from sapwood.storage.sqlite import SqliteStore
from sapwood.storage.sqlite_file import (
    connect,
    has_wal_reset_bug,
    is_read_only,
    real_path,
    sqlite_version,
    typed_errors,
)

_NETWORK: Final = "9p afs ceph cifs coda glusterfs gpfs lustre ncpfs nfs nfs4 smb2 smb3 smbfs"
NETWORK_FILE_SYSTEMS: Final = frozenset(_NETWORK.split())
MOUNTS: Final = Path("/proc/self/mountinfo")


class Check(NamedTuple):
    """One thing that was looked at; `message` says what is, and when it is wrong, what to do."""

    name: str
    is_ok: bool
    message: str


def examine(
    store: Path, *, version: tuple[int, ...] | None = None, mounts: str | None = None, place: str = ""
) -> list[Check]:
    """Look at everything; `version` and `mounts` stand for this machine's own.

    `place` is what a proposed command needs to find this store.
    """
    own = _check_sqlite_version(version or sqlite_version())
    try:
        location = real_path(store)
        is_read_only(location)
    except WrongStore as error:  # nothing to look at, and nothing whose permissions are ours to judge
        return [own, Check("store", False, str(error))]
    return [
        own,
        *_check_place(location, mounts),
        *_check_permissions(location),
        *_check_spools(spool_folder(str(location))),
        *_check_store(location, place),
    ]


def seal_interrupted(store: Store, run: ArtifactKey) -> str:
    """Seal an open run whose owner is gone; return its status. Raises RunBusy while the owner lives."""
    with store.artifacts.read() as reader:
        row = reader.find_run(run)
    if row is None:
        raise NotFound(f"run {run}", "sapwood runs lists them")
    if row.status == "running" and store.is_alive(row.owner):
        raise RunBusy(run.text, row.owner)
    store.attach(run).fail("interrupted: the process that recorded this run is gone")
    return "failed"


def file_system_of(path: Path, mounts: str) -> str:
    """Return the type of the file system that `path` is on, "" when the mounts do not say."""
    found, longest = "", -1
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        place = Path(fields[4].replace("\\040", " "))
        if path.is_relative_to(place) and len(place.parts) >= longest:
            found, longest = after.split()[0], len(place.parts)
    return found


def _check_sqlite_version(version: tuple[int, ...]) -> Check:
    name = f"SQLite {'.'.join(map(str, version))}"
    if has_wal_reset_bug(version):
        return Check("sqlite", False, f"{name} can corrupt a write-ahead log; stores use none here. Upgrade apsw")
    return Check("sqlite", True, f"{name}, write-ahead log")


def _check_place(location: Path, mounts: str | None) -> Iterator[Check]:
    if mounts is None:
        mounts = MOUNTS.read_text() if MOUNTS.exists() else ""
    kind = file_system_of(location.parent, mounts)
    if kind in NETWORK_FILE_SYSTEMS or kind.startswith("fuse."):
        message = f"{location.parent} is on {kind}: locks may not hold there. Move the store to a local disk"
        yield Check("place", False, message)
    elif kind:
        yield Check("place", True, f"{location.parent} is on {kind}")


def _check_permissions(location: Path) -> Iterator[Check]:
    spools = spool_folder(str(location))
    found = [location, *(Path(f"{location}{suffix}") for suffix in ("-wal", "-shm")), spools]
    found += sorted(spools.iterdir()) if spools.is_dir() else []
    wrong = []
    for path in found:
        if path.exists():
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & 0o077:
                wrong.append(f"{path} can be read or written by others ({mode:o}): chmod go= {path}")
            if not os.access(path, os.R_OK | os.W_OK):
                wrong.append(f"{path} cannot be written by this user")
    if location.exists() and not os.access(location.parent, os.W_OK):
        wrong.append(f"{location.parent} cannot be written by this user: SQLite needs its log beside the store")
    yield from (Check("permissions", False, message) for message in wrong)
    if not wrong and location.exists():
        yield Check("permissions", True, "the store is this user's alone")


def _check_spools(folder: Path) -> Iterator[Check]:
    alive = 0
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.suffix == SUFFIX:
            if is_owner_alive(folder, path.stem):
                alive += 1
                continue
            held = sum(len(call.records) for call in read_calls(path.read_bytes()))
            yield Check(
                "spool",
                False,
                f"{path} holds {held} artifact{'s' * (held != 1)} of a dead process; the next command stores them",
            )
        elif path.suffix == ".refused":
            message = f"{path} holds calls that came after their run was sealed; look at it, then remove it"
            yield Check("spool", False, message)
        else:
            yield Check("spool", False, f"{path} is no spool; the next command that records removes it")
    yield Check("spools", True, f"processes that record now: {alive}")


def _check_store(location: Path, place: str) -> Iterator[Check]:
    if not location.exists():
        yield Check("store", False, f"{location} does not exist; sapwood run and sapwood.open() make it")
        return
    migrations = load_migrations("sqlite")
    try:
        with typed_errors(str(location)):
            connection = connect(location, read_only=True)
            try:
                version = check_sqlite(connection, location, migrations)
            finally:
                connection.close()
        if version < len(migrations):
            message = f"schema version {version}; the next command upgrades it to {len(migrations)}, after a copy"
            yield Check("store", True, message)
            return
        store = SqliteStore(location, create=False)
        try:
            yield Check("store", True, f"{location}, schema version {version}, journal {store.journal}")
            yield from _check_runs(store, spool_folder(store.location), place)
        finally:
            store.close()
    except SapwoodError as error:
        yield Check("store", False, str(error))


def _check_runs(store: ArtifactStore, spools: Path, place: str) -> Iterator[Check]:
    with store.read() as reader:
        rows = reader.list_runs(status="running")
        gone = [row for row in rows if not is_owner_alive(spools, row.owner)]
        interrupted = [row for row in gone if not is_paused(reader.list_claims(row.key))]
    for row in interrupted:
        how = f"sapwood resume {row.key}{place}, or sapwood doctor --seal {row.key}{place}"
        yield Check("run", False, f"{row.key} was interrupted: its process is gone. {how}")
    yield Check(
        "runs", True, f"{len(rows) - len(gone)} open with a live process, {len(gone) - len(interrupted)} paused"
    )
