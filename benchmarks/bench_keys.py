"""Keys per second from one factory, in one thread and in eight."""

from __future__ import annotations

import statistics
import threading
import time

from sapwood.clock import KeyFactory
from sapwood.core.keys import ArtifactKey

KEYS = 160_000
ROUNDS = 5


def rate(threads: int) -> float:
    factory = KeyFactory()
    parent = factory.root()
    made: list[list[ArtifactKey]] = [[] for _ in range(threads)]

    def mint(mine: list[ArtifactKey]) -> None:
        for _ in range(KEYS // threads):
            mine.append(factory.child(parent))  # noqa: PERF401 - one call a key is what is measured

    workers = [threading.Thread(target=mint, args=(mine,)) for mine in made]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    taken_s = time.perf_counter() - started
    together = {key for mine in made for key in mine}
    assert len(together) == KEYS
    assert all(mine == sorted(mine) for mine in made)
    return KEYS / taken_s


def main() -> None:
    for threads in (1, 8):
        rates = [rate(threads) for _ in range(ROUNDS)]
        print(
            f"{threads} threads: {statistics.median(rates):,.0f} keys/s, strictly increasing "
            f"({min(rates):,.0f}-{max(rates):,.0f}); goal: at least 150,000"
        )


if __name__ == "__main__":
    main()
