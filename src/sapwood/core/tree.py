"""ArtifactTree: the records of one run, added in any order, read in key order.

Packed keys sort depth-first, each parent before its children, because a parent is a prefix. So one dict and one sorted
list are the whole tree, and what stands below a key is a slice of that list.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from sapwood.core.artifacts import RefArtifact
from sapwood.core.codec import from_record
from sapwood.core.expect import expect
from sapwood.core.findings import Finding
from sapwood.core.keys import SEGMENT_BYTES, ArtifactKey
from sapwood.core.plans import check_plans
from sapwood.core.record import Record
from sapwood.errors import DuplicateKey, InvalidArtifact, NotFound

REQUIRED_GROUPS: Final = ("ExecutionConfig", "InputArtifacts", "AgentExecutionArtifacts", "OutcomeEvidenceArtifacts")

RECORDS: Final = "Records, as to_record gives them"


def _packed(record: Record) -> bytes:
    return record.key.pack()


class ArtifactTree:
    """Holds records by key; the first record of a key stays. Threads may add to it and read it at once."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records: dict[bytes, Record] = {}
        self._order: list[Record] = []
        self._children: tuple[list[Record], dict[bytes, list[Record]]] = [], {}  # of which order, and what it gives
        kept = self._records
        expect(records, Iterable, "records", RECORDS)
        for record in records:
            if type(record) is not Record:
                expect(record, Record, "records", RECORDS)
            packed = record.key.pack()
            if packed in kept:
                raise DuplicateKey([record.key.text])
            kept[packed] = record

    def add(self, record: Record) -> None:
        """Add a record; raise DuplicateKey, and keep the first one, when its key is taken."""
        expect(record, Record, "record", "a Record, as to_record gives it")
        packed, kept = record.key.pack(), self._records
        if packed in kept or kept.setdefault(packed, record) is not record:  # another thread was quicker
            raise DuplicateKey([record.key.text])

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, ArtifactKey) and key.pack() in self._records

    def find(self, key: ArtifactKey) -> Record | None:
        """Return the record with this key, or None."""
        expect(key, ArtifactKey, "key", "an ArtifactKey")
        return self._records.get(key.pack())

    @property
    def root(self) -> Record:
        """The first record without a parent key; NotFound when there is none."""
        for record in self.walk():
            if record.key.depth == 1:
                return record
        raise NotFound("the root of the tree", "no artifact in it has a key of one segment")

    def walk(self, under: ArtifactKey | None = None) -> Iterator[Record]:
        """Yield the record of `under` and all below it (all records without it), each parent before its children."""
        order = self._sorted()
        if under is not None:
            expect(under, ArtifactKey, "under", "an ArtifactKey")
            packed = under.pack()
            start = bisect_left(order, packed, key=_packed)
            end = bisect_right(order, packed, start, key=lambda record: record.key.pack()[: len(packed)])
            order = order[start:end]
        return iter(order)

    def of_kind(self, *kinds: str) -> Iterator[Record]:
        """Yield the records of these kinds, in key order."""
        return (record for record in self.walk() if record.kind in kinds)

    def timeline(self) -> list[Record]:
        """Return all records in the order in which they were made: by last segment, then by whole key."""
        return [self._records[packed] for packed in sorted(self._records, key=lambda packed: (packed[-16:], packed))]

    def children(self, key: ArtifactKey) -> list[Record]:
        """Return what is shown directly below `key`, in key order: its children, and orphans from further down."""
        expect(key, ArtifactKey, "key", "an ArtifactKey")
        return self._below().get(key.pack(), [])[:]

    def shown_under(self, key: ArtifactKey) -> ArtifactKey | None:
        """Return the nearest ancestor that is stored, None for a root and for what has no stored ancestor."""
        expect(key, ArtifactKey, "key", "an ArtifactKey")
        packed = self._nearest(key.pack())
        return ArtifactKey.of_packed(packed) if packed else None

    def orphans(self) -> list[Record]:
        """Return the records whose parent is not stored, in key order."""
        kept = self._records
        return [
            record
            for record in self._sorted()
            if record.key.depth > 1 and record.key.pack()[:-SEGMENT_BYTES] not in kept
        ]

    def repeats(self) -> dict[ArtifactKey, ArtifactKey]:
        """Return for each record that repeats a sibling's kind and content the key of the first of them: its DbRef."""
        first: dict[tuple[bytes, str, str], ArtifactKey] = {}
        found = {}
        for record in self.walk():
            key = record.key
            place = (key.pack()[:-SEGMENT_BYTES], record.kind, record.content_hash)
            original = first.setdefault(place, key)
            if original is not key and key.depth > 1:
                found[key] = original
        return found

    def _sorted(self) -> list[Record]:
        order = self._order
        if len(order) != len(self._records):  # it only grows
            order = self._order = sorted(self._records.values(), key=_packed)  # records: a walk looks nothing up
        return order

    def _below(self) -> dict[bytes, list[Record]]:
        order, (known, children) = self._sorted(), self._children
        if known is not order:
            children = {}
            for record in order:
                above = self._nearest(record.key.pack())
                if above:
                    children.setdefault(above, []).append(record)
            self._children = order, children
        return children

    def _nearest(self, packed: bytes) -> bytes:
        above = packed[:-SEGMENT_BYTES]
        while above and above not in self._records:
            above = above[:-SEGMENT_BYTES]
        return above


def check_complete(tree: ArtifactTree, is_stored: Callable[[ArtifactKey], bool] = lambda _: False) -> list[Finding]:
    """Return why the run may not be completed: its root, its four groups, its references, its plans.

    `is_stored` tells of artifacts outside the tree, such as template versions.
    """
    expect(tree, ArtifactTree, "tree", "an ArtifactTree")
    if not len(tree):
        raise NotFound("the run", "the tree is empty")
    groups = check_groups(tree, next(tree.walk()).key.root)
    return [*_check_root(tree), *groups, *_check_references(tree, is_stored), *_check_plans(tree)]


def check_groups(tree: ArtifactTree, run: ArtifactKey) -> Iterator[Finding]:
    """Yield one finding for each of the four groups that does not stand once directly below the root."""
    kinds = [record.kind for record in tree.walk(run) if record.key.depth == 2]
    for group in REQUIRED_GROUPS:
        if kinds.count(group) != 1:
            yield Finding("required_group", run, f"{group}: {kinds.count(group)} directly below the root; expected one")


def check_orphans(tree: ArtifactTree) -> list[Finding]:
    """Return one finding, which is no failure, for each artifact whose parent never came."""
    expect(tree, ArtifactTree, "tree", "an ArtifactTree")
    return [
        Finding("orphan", record.key, f"parent not stored; shown under {tree.shown_under(record.key)}", False)
        for record in tree.orphans()
    ]


def _check_root(tree: ArtifactTree) -> Iterator[Finding]:
    first = next(tree.walk())
    roots = {record.key.root for record in tree.walk()}
    if len(roots) > 1 or first.kind != "Execution" or first.key.depth != 1:
        yield Finding("root", first.key, f"{len(roots)} roots, the first a {first.kind}; expected one Execution")
    for record in tree.of_kind("Execution"):
        if record.key.depth > 1:
            yield Finding("root", record.key, "a second Execution; a run has one, its root")


def _check_references(tree: ArtifactTree, is_stored: Callable[[ArtifactKey], bool]) -> Iterator[Finding]:
    for record in tree.of_kind("RefArtifact"):
        try:
            reference = from_record(record)
        except InvalidArtifact as error:
            yield Finding("unreadable", record.key, str(error))
            continue
        if isinstance(reference, RefArtifact) and reference.target not in tree and not is_stored(reference.target):
            yield Finding(
                "dangling_reference", record.key, f"{reference.role} refers to {reference.target}, not stored"
            )


def _check_plans(tree: ArtifactTree) -> Iterator[Finding]:
    plans = []
    for record in tree.of_kind("DiscoveryReport", "PlanningTicket"):
        try:
            plans.append(from_record(record))
        except InvalidArtifact as error:
            yield Finding("unreadable", record.key, str(error))
    yield from check_plans(plans)
