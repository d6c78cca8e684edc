"""The spool: what a recording call hands to the operating system before it returns, so that kill -9 loses nothing.

One file a process, written with one system call a recording call, never synced: a synced commit of the store follows at
the end of the scope and starts a new epoch, in which the file is written again from its start. A frame is magic, epoch,
two lengths and a CRC-32, then all but the contents, which the CRC covers, then the contents, which their own hashes
cover. The reader stops at the first frame that is torn or of another epoch. The file's lock is the sign that its
process lives; a file whose lock is free is the rest of one that does not.
"""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from sapwood.core.hashing import hash_bytes
from sapwood.core.keys import ArtifactKey
from sapwood.core.record import Record
from sapwood.errors import StoreUnwritable
from sapwood.ports import RunStart

MAGIC: Final = b"SWsp"
HEADER: Final = struct.Struct("<4sQIQI")  # magic, epoch, length of the rest and of the contents, CRC-32
MOST_PARTS: Final = 512  # how many buffers one pwritev is given; more are joined first
KEEP_BYTES: Final = 4 * 1024 * 1024  # a longer file is cut when its epoch ends
SUFFIX: Final = ".spool"
NEW_SUFFIX: Final = ".new"  # before it is locked
FORGOTTEN_S: Final = 60.0  # nobody takes that long between making the file and naming it

logger = logging.getLogger("sapwood.spool")
_encode = msgspec.msgpack.Encoder().encode
_epoch_bytes = struct.Struct("<Q").pack
_open_spools: weakref.WeakSet[Spool] = weakref.WeakSet()


class Call(NamedTuple):
    """What one recording call made: all of it is stored, or none."""

    records: Sequence[Record]
    starts: Sequence[RunStart] = ()


class Spool:
    """This process's spool file; it exists from the first call on, until `close`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._path = folder / (name + SUFFIX)
        self._epoch = 1
        self._size = 0
        self._fd = _create(self._path)
        _open_spools.add(self)

    def write(self, call: Call) -> int:
        """Hand the call to the operating system in one `write`; return its bytes. Raises StoreUnwritable, unchanged."""
        contents = [record.content for record in call.records]
        rest = _encode(
            (
                [(one.key.pack(), one.kind, len(one.content), one.content_hash, one.metadata) for one in call.records],
                [(start.key.pack(), *start[1:]) for start in call.starts] if call.starts else (),
            )
        )
        size = sum(map(len, contents))
        checksum = crc32(rest, crc32(_epoch_bytes(self._epoch)))
        header = HEADER.pack(MAGIC, self._epoch, len(rest), size, checksum)
        total = len(header) + len(rest) + size
        if len(contents) > MOST_PARTS:
            contents = [b"".join(contents)]
        try:
            written = os.pwritev(self._fd, (header, rest, *contents), self._size)
        except OSError as error:
            self._step_back()
            raise StoreUnwritable(str(self._path), error.strerror or str(error)) from error
        if written != total:
            self._step_back()
            raise StoreUnwritable(str(self._path), f"only {written} of {total} bytes were taken")
        self._size += total
        return total

    def start_epoch(self) -> None:
        """Forget every frame: what they hold is committed and synced."""
        self._epoch += 1
        if self._size > KEEP_BYTES:
            os.ftruncate(self._fd, 0)
        self._size = 0

    def _step_back(self) -> None:
        """Put the end of the file back to the end of the last whole frame."""
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:  # the next frame overwrites the torn one; a reader stops at it anyway
            logger.warning("cannot cut the torn end of %s", self._path)

    def close(self, *, keep: bool = False) -> None:
        """Give the lock back; the file goes too, unless it holds what is not committed (`keep`)."""
        if self._fd >= 0:
            if not keep:
                self._path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = -1

    def leave_to_parent(self) -> None:
        """In a forked child: let go, so that the lock is the parent's alone."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def is_owner_alive(folder: Path, name: str) -> bool:
    """Tell whether the process whose spool has this name still runs."""
    try:
        fd = os.open(folder / (name + SUFFIX), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def leftovers(folder: Path) -> Iterator[tuple[Path, list[Call]]]:
    """Yield each spool whose process is gone, with its calls; it is locked meanwhile, so that nobody else takes it."""
    for path in sorted(folder.glob("*" + SUFFIX)):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # somebody else was faster
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists():
                yield path, list(read_calls(_read_all(fd)))
        except BlockingIOError:
            continue
        finally:
            os.close(fd)


def remove_unfinished(folder: Path) -> None:
    """Remove what processes left that died while they made their spool: nothing was ever written to it."""
    for path in folder.glob("*" + NEW_SUFFIX):
        with suppress(FileNotFoundError):  # somebody else was faster
            if time.time() - path.stat().st_mtime > FORGOTTEN_S:
                path.unlink()


def read_calls(data: bytes) -> Iterator[Call]:
    """Yield the calls of the first epoch in `data`, up to the first frame that is not whole."""
    at, epoch = 0, None
    while at + HEADER.size <= len(data):
        magic, frame_epoch, rest_bytes, contents_bytes, checksum = HEADER.unpack_from(data, at)
        rest_at = at + HEADER.size
        contents_at = rest_at + rest_bytes
        rest = data[rest_at:contents_at]
        at = contents_at + contents_bytes
        if magic != MAGIC or at > len(data) or frame_epoch != (epoch or frame_epoch):
            return
        if crc32(rest, crc32(_epoch_bytes(frame_epoch))) != checksum:
            return
        call = _decode(rest, data[contents_at:at])
        if any(hash_bytes(record.content) != record.content_hash for record in call.records):
            return
        yield call
        epoch = frame_epoch


_Frame = tuple[
    list[tuple[bytes, str, int, str, bytes]],
    list[tuple[bytes, int, int, str, int, int]],
]
_decode_frame = msgspec.msgpack.Decoder(_Frame).decode


def _decode(rest: bytes, contents: bytes) -> Call:
    rows, starts = _decode_frame(rest)
    unpack, records, at = ArtifactKey.unpack, [], 0
    for key, kind, size, digest, metadata in rows:
        records.append(Record(unpack(key), kind, contents[at : at + size], digest, metadata))
        at += size
    return Call(records, [RunStart(unpack(key), *rest) for key, *rest in starts])


def _create(path: Path) -> int:
    """Return the descriptor of a new locked file; it gets its name only when it is locked."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    hidden = path.with_suffix(NEW_SUFFIX)
    hidden.unlink(missing_ok=True)  # of a try that Ctrl-C ended
    fd = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        hidden.rename(path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        os.close(fd)
        raise
    return fd


def _read_all(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    parts, at = [], 0
    while at < size and (part := os.pread(fd, size - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _leave_all_to_parent() -> None:
    for spool in list(_open_spools):
        spool.leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)
