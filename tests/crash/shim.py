"""Builds the preloaded shim, and starts processes under it with a write log and a page that says which calls fail."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum, IntFlag
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
ROOT = SOURCE.parent.parent.parent
CONTROL = struct.Struct("=qqqiiq")  # calls, first, span, fault, mask, failed
FOR_EVER = 2**40


class Fault(IntEnum):
    """What happens to a chosen call."""

    NONE = 0
    NO_SPACE = 1
    IO_ERROR = 2
    INTERRUPTED = 3
    SHORT_WRITE = 4
    READ_ONLY = 5  # every call that opens for writing, from now on


class On(IntFlag):
    """Which calls are counted, and may be chosen."""

    WRITE = 1
    SYNC = 2
    TRUNCATE = 4
    NAME = 8
    READ = 16
    ALL = 31


def build_shim(folder: Path) -> Path:
    """Compile the shim into `folder`. A C compiler is needed to run these tests; without one they fail here."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "shim.so"
    if not library.exists():
        command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise RuntimeError("the crash tests need a C compiler named `cc`; install gcc or clang") from None
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"the shim does not compile: {error.stderr}") from None
    return library


class Faults:
    """The shared page: set from any process, obeyed at once by every process under the shim."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(bytes(CONTROL.size))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), CONTROL.size)

    def set(self, fault: Fault, on: On = On.ALL, first: int = 1, span: int = FOR_EVER) -> None:
        """Count from now; let the calls `first` to `first + span - 1` among `on` fail."""
        CONTROL.pack_into(self._page, 0, 0, first, span, fault, on, 0)

    def clear(self) -> None:
        """Let every call through, and count all of them from now."""
        self.set(Fault.NONE)

    @property
    def calls(self) -> int:
        return int(CONTROL.unpack_from(self._page)[0])

    @property
    def failed(self) -> int:
        return int(CONTROL.unpack_from(self._page)[5])


@contextmanager
def under_shim(
    library: Path, watched: Path, *command: str, log: Path | None = None, faults: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run `python *command` with calls below `watched` logged and, if asked for, failing; kill it at the end."""
    watched.mkdir(parents=True, exist_ok=True)
    environ = dict(os.environ, LD_PRELOAD=str(library), SHIM_DIR=str(watched), PYTHONPATH=str(ROOT))
    environ["SHIM_ACK"] = str(watched) + ".ack"
    if log is not None:
        environ["SHIM_LOG"] = str(log)
    if faults is not None:
        environ["SHIM_CONTROL"] = str(faults)
    process = subprocess.Popen(
        [sys.executable, *command], env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
