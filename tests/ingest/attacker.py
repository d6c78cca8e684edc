"""Exchanges a directory with a link in a tight loop until it is killed: `python -m tests.ingest.attacker A B`."""

from __future__ import annotations

import ctypes
import os
import sys

AT_FDCWD, EXCHANGE = -100, 2


def main() -> None:
    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    one, other = (os.fsencode(word) for word in sys.argv[1:3])
    print("ready", flush=True)
    while os.getppid() != 1:
        for _ in range(2_000):
            exchange(AT_FDCWD, one, AT_FDCWD, other, EXCHANGE)


if __name__ == "__main__":
    main()
