"""Opening the SQLite file: which journal, which pragmas, and what its errors mean.

Nothing here or elsewhere in this program may `open()` a store file that a connection of this process holds: closing
that descriptor drops SQLite's locks, and another process may then unlink the log that we go on writing to.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sapwood.errors import NotFound, StoreBusy, StoreDamaged, StoreError, StoreUnwritable, SyncFailed, WrongStore

PAGE_BYTES: Final = 8192
BUSY_TIMEOUT_S: Final = 30.0
_creating = threading.Lock()


def has_wal_reset_bug(version: tuple[int, ...]) -> bool:
    """Tell whether this SQLite may corrupt a WAL file when two connections write and checkpoint at once."""
    fixed_in = {(3, 44): (3, 44, 6), (3, 50): (3, 50, 7)}.get((version[0], version[1]), (3, 51, 3))
    return version < fixed_in


def sqlite_version() -> tuple[int, ...]:
    import apsw

    return tuple(int(part) for part in apsw.sqlite_lib_version().split("."))


def connect(path: Path, *, create: bool = False, read_only: bool = False) -> Any:
    """Return a connection to the file with our pragmas; `create` makes it 0600 when it is not there."""
    import apsw

    if create:
        _create(path)
    elif not path.exists():
        raise NotFound(f"store {path}", "sapwood.open() and sapwood run create one")
    if read_only:
        return _connect_read_only(path)
    with typed_errors(str(path)):
        return _waiting(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE))


def real_path(name: str | os.PathLike[str]) -> Path:
    """Return where the file really is; raise WrongStore for a name that SQLite cannot be given."""
    try:
        path = os.path.realpath(name)
        path.encode()
    except ValueError:
        raise WrongStore(ascii(os.fspath(name)), "its path is no UTF-8 text, or holds a NUL; name another") from None
    return Path(path)


def is_read_only(path: Path) -> bool:
    """Tell whether the file can be read and not written, or no log beside it; raise WrongStore when it is no use."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise WrongStore(str(path), f"{error.strerror}; name another file, or change its permissions") from error
    if stat.S_ISDIR(mode):
        raise WrongStore(str(path), "it is a folder; name a file in it")
    if not stat.S_ISREG(mode):  # whoever opens a pipe waits for somebody who writes to it
        raise WrongStore(str(path), "it is a pipe, a socket or a device; name a file")
    if not os.access(path, os.R_OK):
        raise WrongStore(str(path), "you may not read it; ask its owner, or change its permissions")
    return not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def _connect_read_only(path: Path) -> Any:
    """Where nothing can be written SQLite cannot share a log; a file without one is read as it is."""
    import apsw

    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.execute("select count(*) from sqlite_schema").fetchone()
        return _waiting(connection)
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        connection.close()
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size:
        raise StoreUnwritable(str(path), "part of it is in its -wal file; copy both to where they can be written")
    with typed_errors(str(path)):
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return _waiting(apsw.Connection(f"{path.as_uri()}?immutable=1", flags=flags))


def _waiting(connection: Any) -> Any:
    connection.set_busy_timeout(int(BUSY_TIMEOUT_S * 1000))
    return connection


def choose_journal(version: tuple[int, ...]) -> str:
    """Return the journal that this SQLite can be trusted with."""
    return "delete" if has_wal_reset_bug(version) else "wal"


def journal_of(connection: Any) -> str:
    return str(connection.execute("pragma journal_mode").fetchone()[0])


def change_journal(connection: Any, journal: str) -> None:
    """Ask for another journal. What came of it, only a new connection knows: after a failed write this one lies."""
    connection.execute(f"pragma page_size = {PAGE_BYTES}")
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while journal_of(connection) != journal:
        try:
            connection.execute(f"pragma journal_mode = {journal}")
        except _busy():
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)  # this pragma does not wait by itself


def set_sync(connection: Any, journal: str) -> None:
    """Make every commit of this connection wait for the disk, and no commit run a checkpoint."""
    connection.execute("pragma synchronous = extra" if journal == "delete" else "pragma synchronous = full")
    connection.execute("pragma wal_autocheckpoint = 0")
    connection.execute("pragma cache_size = -16384")


@contextmanager
def typed_errors(where: str) -> Iterator[None]:
    """Turn what SQLite raises into the errors of this package. Not around anybody else's code."""
    import apsw

    try:
        yield
    except apsw.Error as error:
        raise _typed(error, where) from error
    except UnicodeDecodeError as error:
        raise StoreDamaged(where, f"a text in it is no UTF-8 ({error})") from error


def _typed(error: Any, where: str) -> StoreError:
    import apsw

    code = getattr(error, "extendedresult", 0)
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return StoreBusy(where, BUSY_TIMEOUT_S)
    if code in (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC):
        return SyncFailed(where, "the disk did not confirm a sync")
    if isinstance(error, apsw.FullError):
        return StoreUnwritable(where, "the disk is full")
    if isinstance(error, (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError)):
        return StoreUnwritable(where, f"no permission ({error})")
    if isinstance(error, apsw.IOError):
        return StoreUnwritable(where, f"the disk failed ({error})")
    if isinstance(error, apsw.NotADBError):
        return WrongStore(where, "it is no SQLite database")
    if isinstance(error, (apsw.CorruptError, apsw.FormatError)):
        return StoreDamaged(where, str(error))
    return StoreError(f"store {where}: {error}")


def _busy() -> type[Exception]:
    import apsw

    busy: type[Exception] = apsw.BusyError
    return busy


def _create(path: Path) -> None:
    with _creating:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return
        except FileNotFoundError as error:
            raise StoreUnwritable(str(path), "its folder does not exist; make it first") from error
        except OSError as error:
            raise StoreUnwritable(str(path), f"cannot be created ({error.strerror})") from error


def _start_over_after_fork() -> None:
    global _creating
    _creating = threading.Lock()  # some thread of the parent may hold the old one


os.register_at_fork(after_in_child=_start_over_after_fork)
