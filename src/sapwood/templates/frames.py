"""Length-prefixed messages on a pipe, each with a deadline."""

from __future__ import annotations

import os
import select
import struct
import time

_LENGTH = struct.Struct(">I")
MAX_FRAME_BYTES = 64 * 1024 * 1024


class PipeClosed(Exception):
    """The other side is gone."""


class DeadlinePassed(Exception):
    """The other side did not answer in time."""


def send_frame(descriptor: int, data: bytes, deadline: float | None = None) -> None:
    """Write one message."""
    rest = memoryview(_LENGTH.pack(len(data)) + data)
    while rest:
        _wait(descriptor, select.POLLOUT, deadline)
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            continue
        except OSError as error:
            raise PipeClosed from error


def receive_frame(descriptor: int, deadline: float | None = None) -> bytes:
    """Read one message."""
    (size,) = _LENGTH.unpack(_receive(descriptor, _LENGTH.size, deadline))
    if size > MAX_FRAME_BYTES:
        raise PipeClosed
    return _receive(descriptor, size, deadline)


def _receive(descriptor: int, size: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        _wait(descriptor, select.POLLIN, deadline)
        try:
            part = os.read(descriptor, min(size - len(data), 1 << 20))
        except BlockingIOError:
            continue
        if not part:
            raise PipeClosed
        data += part
    return bytes(data)


def _wait(descriptor: int, event: int, deadline: float | None) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    left_ms = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
    if not poll.poll(left_ms):
        raise DeadlinePassed
