"""Open what lies directly below an open directory, without following a link or crossing a mount.

Two ways with one promise: `openat2`, where the kernel itself refuses, and a walk with O_NOFOLLOW for the others.
Each step is one name below one descriptor, so nothing that is renamed meanwhile can lead the walk elsewhere.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable
from typing import Final

Opener = Callable[[int, str, int], int]
"""Opens one name below a directory descriptor with these flags; raises OSError (ELOOP a link, EXDEV a mount)."""

DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SYS_OPENAT2: Final = 437  # the same number on every Linux architecture but alpha
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_RESOLVE: Final = _NO_XDEV | _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH


class Blocked(Exception):
    """Something on the disk is in the way; `reason` is the manifest's code, with words after a colon."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2_opener() -> Opener | None:
    """Return an opener that uses openat2, or None where the kernel (or a filter around us) does not have it."""
    if not sys.platform.startswith("linux"):
        return None
    syscall = ctypes.CDLL(None, use_errno=True).syscall

    def open_child(dir_fd: int, name: str, flags: int) -> int:
        how = _OpenHow(flags, 0, _RESOLVE)
        while True:
            fd = syscall(_SYS_OPENAT2, dir_fd, os.fsencode(name), ctypes.byref(how), ctypes.sizeof(how))
            if fd >= 0:
                return int(fd)
            code = ctypes.get_errno()
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code))

    try:
        open_child(-1, "probe", DIRECTORY)
    except OSError as error:
        return open_child if error.errno == errno.EBADF else None
    raise AssertionError("a descriptor of -1 opened something")


def nofollow_opener() -> Opener:
    """Return an opener that every POSIX system has: one name, O_NOFOLLOW, and a look at the mount it is on."""

    def open_child(dir_fd: int, name: str, flags: int) -> int:
        fd = os.open(name, flags | os.O_NOFOLLOW, dir_fd=dir_fd)
        try:
            if _mount_of(fd) != _mount_of(dir_fd):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        except OSError:
            os.close(fd)
            raise
        return fd

    return open_child


def best_opener() -> Opener:
    """Return openat2 where there is one, else the walk."""
    return openat2_opener() or nofollow_opener()


def _mount_of(fd: int) -> tuple[int, bytes]:
    """Return the device and, where the system tells it, the mount: a bind mount has the device of its source."""
    try:
        info = os.open(f"/proc/self/fdinfo/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return os.fstat(fd).st_dev, b""
    try:
        lines = os.read(info, 4096).splitlines()
    finally:
        os.close(info)
    return os.fstat(fd).st_dev, next((line for line in lines if line.startswith(b"mnt_id:")), b"")


def open_directory(opener: Opener, dir_fd: int, name: str) -> int:
    """Open the directory `name`; raise FileNotFoundError, or Blocked with what is in the way."""
    try:
        return opener(dir_fd, name, DIRECTORY)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ENOTDIR and not _is_link(dir_fd, name):
            raise Blocked("parent_not_directory") from None
        raise blocked_by(error) from None


def names_in(dir_fd: int) -> list[str]:
    """Return the names in an open directory."""
    with os.scandir(dir_fd) as entries:
        return [entry.name for entry in entries]


def blocked_by(error: OSError) -> Blocked:
    """Return what an error of the system means for a block; the words name the error, never a path."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return Blocked("symlink")
    if error.errno == errno.EXDEV:
        return Blocked("xdev")
    return Blocked(f"io_error: {errno.errorcode.get(error.errno or 0, type(error).__name__)}")


def _is_link(dir_fd: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode)
    except OSError:
        return False
