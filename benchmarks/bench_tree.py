"""Building a tree and walking it against a plain dict of the same records, at 100,000 and at 1,000,000."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable

from msgspec.structs import replace

from sapwood.clock import KeyFactory
from sapwood.core.artifacts import Note
from sapwood.core.codec import to_record
from sapwood.core.record import Record
from sapwood.core.seal import summarise
from sapwood.core.tree import ArtifactTree


def make_records(count: int) -> list[Record]:
    """Return a run's worth of records: 100 agents' scopes, three levels below them, in order of arrival."""
    keys = KeyFactory()
    root = keys.root()
    one = to_record(Note(root, text="x", content_type="text"))
    records = [one]
    scopes = [root]
    rng = random.Random(1)
    while len(records) < count:
        parent = scopes[rng.randrange(len(scopes))]
        key = keys.child(parent)
        records.append(replace(one, key=key))
        if key.depth < 5 and rng.random() < 0.02:
            scopes.append(key)
    return records


def tree(records: list[Record]) -> int:
    return sum(1 for _ in ArtifactTree(records).walk())


def plain(records: list[Record]) -> int:
    kept = {record.key: record for record in records}
    return sum(1 for _ in kept.values())


def seconds(work: Callable[[list[Record]], int], records: list[Record]) -> float:
    gc.collect()
    started = time.perf_counter()
    assert work(records) == len(records)
    return time.perf_counter() - started


def main() -> None:
    taken_s = {}
    for count, rounds in ((100_000, 7), (1_000_000, 3)):
        records = make_records(count)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(seconds(tree, records))
            theirs.append(seconds(plain, records))
        ratios = [own / other for own, other in zip(ours, theirs, strict=True)]
        taken_s[count] = statistics.median(ours), statistics.median(theirs)
        print(
            f"{count:,} records: build and walk {taken_s[count][0] / count * 1e6:.2f} us each, "
            f"{statistics.median(ratios):.1f} times a dict ({min(ratios):.1f}-{max(ratios):.1f}); goal: within 15"
        )
        ordered = sorted(records)
        started = time.perf_counter()
        summarise(ordered)
        print(f"{count:,} records: Merkle head {(time.perf_counter() - started) / count * 1e6:.2f} us each")
    growth, dict_growth = (large / small for large, small in zip(taken_s[1_000_000], taken_s[100_000], strict=True))
    print(f"ten times the records cost {growth:.1f} times the time; the dict {dict_growth:.1f} times")


if __name__ == "__main__":
    main()
