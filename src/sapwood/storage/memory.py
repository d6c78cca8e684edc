"""The reference store: the same promises as the others, in a dict, for tests and for reading the contract."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from sapwood.core.keys import SEGMENT_BYTES, ArtifactKey
from sapwood.core.record import Record
from sapwood.core.template import TemplateId, TemplateVersion
from sapwood.errors import DuplicateClaim, DuplicateKey, RunChanged, RunSealed, StoreClosed
from sapwood.ports import GLANCE_BYTES, Claim, Glance, Outline, Reader, RunEnd, RunRow, RunStart
from sapwood.storage.rows import LAST_KEY, end_of_subtree
from sapwood.storage.templates import is_version, template_id_of, to_version, version_record

LOCATION = "memory:"


@dataclass
class _State:
    """All that is stored. A change makes a new one, so that a reader keeps the one it has."""

    records: dict[bytes, Record] = field(default_factory=dict)
    runs: dict[bytes, RunRow] = field(default_factory=dict)
    claims: dict[tuple[ArtifactKey, str, int, int, str], ArtifactKey] = field(default_factory=dict)
    templates: dict[tuple[str, str], ArtifactKey] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.records), dict(self.runs), dict(self.claims), dict(self.templates))


class MemoryStore:
    """A store that is gone with its process; simple rather than fast."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._state = _State()
        self._last_run_id = 0
        self._given: dict[bytes, list[int]] = {}
        self._is_closed = False

    @property
    def location(self) -> str:
        return LOCATION

    def append(
        self,
        records: Sequence[Record],
        *,
        starts: Sequence[RunStart] = (),
        claims: Sequence[Claim] = (),
        end: RunEnd | None = None,
    ) -> None:
        with self._lock:
            self._check_usable()
            state = self._state.copy()
            self._refuse_sealed(state, [record.key.root for record in records] + [claim.run for claim in claims])
            for start in starts:
                key = start.key.pack()
                state.runs[key] = RunRow(*start[:2], "running", start.started_ms, None, None, start.owner)
            _add_records(state, records)
            for claim in claims:
                if claim[:5] in state.claims:
                    raise DuplicateClaim(f"{claim.run} {claim.node} {claim.attempt}.{claim.delivery} {claim.role}")
                state.claims[claim[:5]] = claim.key
            if end is not None:
                _end_run(state, end, len(records))
            self._given.update({start.key.pack(): [start.node_ids, start.artifact_ids] for start in starts})
            self._state = state

    def stored(self, keys: Iterable[ArtifactKey]) -> set[ArtifactKey]:
        with self._lock:
            self._check_usable()
            return {key for key in keys if key.pack() in self._state.records}

    def next_workflow_run_id(self) -> int:
        with self._lock:
            self._check_usable()
            self._last_run_id += 1
            return self._last_run_id

    def reserve_ids(self, run: ArtifactKey, nodes: int, artifacts: int) -> tuple[int, int]:
        with self._lock:
            self._check_usable()
            self._refuse_sealed(self._state, [run])
            given = self._given[run.pack()]
            first = given[0] + 1, given[1] + 1
            given[0] += nodes
            given[1] += artifacts
            return first

    def change_owner(self, run: ArtifactKey, old: str, new: str) -> bool:
        with self._lock:
            self._check_usable()
            row = self._state.runs.get(run.pack())
            if row is None or row.status != "running" or row.owner != old:
                return False
            state = self._state.copy()
            state.runs[run.pack()] = row._replace(owner=new)
            self._state = state
            return True

    @contextmanager
    def read(self) -> Iterator[Reader]:
        self._check_usable()
        yield MemoryReader(self._state)

    def close(self) -> None:
        self._is_closed = True

    def find_version(self, template_id: TemplateId, content_hash: str) -> TemplateVersion | None:
        state = self._state
        key = state.templates.get((template_id.text, content_hash))
        return None if key is None else to_version(state.records[key.pack()])

    def known_hashes(self, template_ids: Iterable[TemplateId]) -> set[tuple[str, str]]:
        wanted = {template_id.text for template_id in template_ids}
        return {pair for pair in self._state.templates if pair[0] in wanted}

    def add_version(self, version: TemplateVersion) -> TemplateVersion:
        with self._lock:
            found = self.find_version(version.template_id, version.content_hash)
            if found is None:
                self.append([version_record(version)])
            return found or version

    def list_versions(self, prefix: str = "tpl") -> Sequence[TemplateVersion]:
        state = self._state
        versions = [to_version(state.records[key.pack()]) for key in state.templates.values()]
        family = [version for version in versions if version.template_id.is_in_family(prefix)]
        return sorted(family, key=lambda version: (version.template_id, version.key))

    def _check_usable(self) -> None:
        if self._is_closed:
            raise StoreClosed(LOCATION)

    @staticmethod
    def _refuse_sealed(state: _State, roots: Iterable[ArtifactKey]) -> None:
        for root in set(roots):
            row = state.runs.get(root.pack())
            if row is not None and row.status != "running":
                raise RunSealed(root.text, row.status)


class MemoryReader:
    """One state of the store; states never change, so neither does what is read here."""

    def __init__(self, state: _State) -> None:
        self._state = state
        self._keys = sorted(state.records)

    def find(self, key: ArtifactKey) -> Record | None:
        return self._state.records.get(key.pack())

    def load(
        self, key: ArtifactKey | None = None, *, after: ArtifactKey | None = None, limit: int | None = None
    ) -> Iterator[Record]:
        start, stop = self._range(key)
        if after is not None:
            start = max(start, bisect_left(self._keys, after.pack() + b"\0"))
        if limit is not None:
            stop = min(stop, start + limit)
        return (self._state.records[packed] for packed in self._keys[start:stop])

    def load_kinds(self, key: ArtifactKey | None, kinds: Sequence[str]) -> Iterator[Record]:
        return (record for record in self.load(key) if record.kind in kinds)

    def outline(self, key: ArtifactKey | None = None, kinds: Sequence[str] | None = None) -> Iterator[Outline]:
        records = self.load(key) if kinds is None else self.load_kinds(key, kinds)
        return (Outline(found.key, found.kind, found.content_hash, found.metadata) for found in records)

    def glance(
        self,
        key: ArtifactKey,
        *,
        after: ArtifactKey | None = None,
        limit: int | None = None,
        depth: int | None = None,
    ) -> Iterator[Glance]:
        found = (
            Glance(
                record.key,
                record.kind,
                record.content_hash,
                record.metadata,
                len(record.content),
                record.content[:GLANCE_BYTES],
            )
            for record in self.load(key, after=after)
            if depth is None or record.key.depth <= key.depth + depth
        )
        return islice(found, limit)

    def timeline_keys(
        self, key: ArtifactKey, *, after: ArtifactKey | None = None, limit: int | None = None
    ) -> Iterator[ArtifactKey]:
        def place(packed: bytes) -> tuple[bytes, bytes]:
            return packed[-SEGMENT_BYTES:], packed

        start, stop = self._range(key)
        keys = sorted(self._keys[start:stop], key=place)
        wanted = (packed for packed in keys if after is None or place(packed) > place(after.pack()))
        return (ArtifactKey.unpack(packed) for packed in islice(wanted, limit))

    def last_key(self, key: ArtifactKey) -> ArtifactKey | None:
        start, stop = self._range(key)
        return ArtifactKey.unpack(self._keys[stop - 1]) if stop > start else None

    def child_keys(
        self, key: ArtifactKey, *, after: ArtifactKey | None = None, limit: int | None = None
    ) -> Iterator[ArtifactKey]:
        parent = key.pack()
        length = len(parent) + SEGMENT_BYTES
        start, stop = self._range(key)
        children = {packed[:length] for packed in self._keys[start:stop] if len(packed) >= length}
        wanted = sorted(child for child in children if after is None or child > after.pack()[:length])
        return (ArtifactKey.unpack(child) for child in wanted[:limit])

    def count(self, key: ArtifactKey | None = None) -> int:
        start, stop = self._range(key)
        return stop - start

    def find_run(self, key: ArtifactKey) -> RunRow | None:
        return self._state.runs.get(key.pack())

    def list_runs(
        self, *, before: ArtifactKey | None = None, limit: int | None = None, status: str | None = None
    ) -> list[RunRow]:
        runs = sorted(self._state.runs.values(), key=lambda run: run.key, reverse=True)
        wanted = (run for run in runs if (before is None or run.key < before) and status in (None, run.status))
        return list(wanted)[:limit]

    def find_claim(self, run: ArtifactKey, node: str, attempt: int, delivery: int, role: str) -> ArtifactKey | None:
        return self._state.claims.get((run, node, attempt, delivery, role))

    def list_claims(self, run: ArtifactKey) -> list[Claim]:
        return sorted(Claim(*claim, key) for claim, key in self._state.claims.items() if claim[0] == run)

    def damaged(self, key: ArtifactKey | None = None) -> Iterator[str]:
        return iter(())  # memory does not decay

    def _range(self, key: ArtifactKey | None) -> tuple[int, int]:
        if key is None:
            return 0, bisect_left(self._keys, LAST_KEY)
        packed = key.pack()
        return bisect_left(self._keys, packed), bisect_left(self._keys, end_of_subtree(packed))


def _add_records(state: _State, records: Sequence[Record]) -> None:
    for record in records:
        packed = record.key.pack()
        if packed in state.records:
            raise DuplicateKey([record.key.text])
        state.records[packed] = record
        if is_version(record):
            state.templates[template_id_of(record), record.content_hash] = record.key


def _end_run(state: _State, end: RunEnd, added: int) -> None:
    key = end.key.pack()
    found = MemoryReader(state).count(end.key) - added
    if found != end.judged:
        raise RunChanged(end.key.text, end.judged, found)
    state.runs[key] = state.runs[key]._replace(status=end.status, ended_ms=end.ended_ms, head=end.head)
