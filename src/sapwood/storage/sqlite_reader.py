"""Reading the SQLite file: one connection in one read transaction, so that everything was read at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sapwood.core.keys import SEGMENT_BYTES, ArtifactKey
from sapwood.core.record import Record
from sapwood.errors import InvalidKey, StoreDamaged
from sapwood.ports import GLANCE_BYTES, Claim, Glance, Outline, RunRow
from sapwood.storage.rows import (
    INLINE_BYTES,
    LAST_KEY,
    ZSTD_HEAD_BYTES,
    chunk_hashes,
    end_of_subtree,
    join,
    uncompressed_bytes,
)
from sapwood.storage.sqlite_damage import damaged
from sapwood.storage.sqlite_file import typed_errors

FIND = "select key, kind, hash, metadata, content, chunks from artifact where key = ?"
LOAD = "select key, kind, hash, metadata, content, chunks from artifact where key >= ? and key < ? order by key limit ?"
LOAD_KINDS = (
    "select key, kind, hash, metadata, content, chunks from artifact "
    "where key >= ? and key < ? and kind in (select value from json_each(?)) order by key"
)
OUTLINE = "select key, kind, hash, metadata from artifact where key >= ? and key < ? order by key"
OUTLINE_KINDS = (
    "select key, kind, hash, metadata from artifact "
    "where key >= ? and key < ? and kind in (select value from json_each(?)) order by key"
)
GLANCE = (  # substr would read a long content whole
    "select id, key, kind, hash, metadata, length(content), iif(length(content) < ?, substr(content, 1, ?), null), "
    "chunks from artifact where key >= ? and key < ? order by key limit ?"
)
TIMELINE = (
    "select key from artifact where key >= ?1 and key < ?2 and (substr(key, -16), key) > (substr(?3, -16), ?3) "
    "order by substr(key, -16), key limit ?4"
)
LAST_KEY_IN = "select key from artifact where key >= ? and key < ? order by key desc limit 1"
NEXT_KEY = "select key from artifact where key >= ? and key < ? order by key limit 1"
COUNT = "select count(*) from artifact where key >= ? and key < ?"
CHUNK_HEAD = "select substr(data, 1, ?) from chunk where hash = ?"
CHUNK = "select data from chunk where hash = ?"
RUN = "select key, workflow_run_id, status, started_ms, ended_ms, head, owner from run where key = ?"
RUNS = (
    "select key, workflow_run_id, status, started_ms, ended_ms, head, owner from run "
    "where key < ? and (? is null or status = ?) order by key desc limit ?"
)
CLAIM = "select key from claim where run = ? and node = ? and attempt = ? and delivery = ? and role = ?"
CLAIMS = (
    "select run, node, attempt, delivery, role, key from claim where run = ? order by node, attempt, delivery, role"
)
EVERYTHING = -1  # as a limit


class SqliteReader:
    """A read transaction on `connection`, which nobody else uses meanwhile."""

    def __init__(self, connection: Any, where: str) -> None:
        self._connection = connection
        self._where = where

    def find(self, key: ArtifactKey) -> Record | None:
        return next(self._records(FIND, (key.pack(),)), None)

    def load(
        self, key: ArtifactKey | None = None, *, after: ArtifactKey | None = None, limit: int | None = None
    ) -> Iterator[Record]:
        first, end = _range(key)
        if after is not None:
            first = max(first, after.pack() + b"\0")
        return self._records(LOAD, (first, end, EVERYTHING if limit is None else limit))

    def load_kinds(self, key: ArtifactKey | None, kinds: Sequence[str]) -> Iterator[Record]:
        return self._records(LOAD_KINDS, (*_range(key), _json_list(kinds)))

    def outline(self, key: ArtifactKey | None = None, kinds: Sequence[str] | None = None) -> Iterator[Outline]:
        if kinds is None:
            rows = self._rows(OUTLINE, _range(key))
        else:
            rows = self._rows(OUTLINE_KINDS, (*_range(key), _json_list(kinds)))
        for packed, kind, digest, metadata in rows:
            key = self._key_of(packed, kind, digest, metadata)
            yield Outline(key, kind, digest.hex(), metadata)

    def glance(
        self,
        key: ArtifactKey,
        *,
        after: ArtifactKey | None = None,
        limit: int | None = None,
        depth: int | None = None,
    ) -> Iterator[Glance]:
        first, end = _range(key)
        longest = len(key.pack()) + SEGMENT_BYTES * depth if depth is not None else len(LAST_KEY)
        if after is not None:
            first = max(first, _after(after.pack(), longest))
        if depth is None:
            yield from self._glances(first, end, EVERYTHING if limit is None else limit)
            return
        while limit is None or limit > 0:
            found = self._first_key(NEXT_KEY, (first, end))
            if found is None:
                return
            packed = found.pack()
            if len(packed) <= longest:
                yield from self._glances(packed, end, 1)
                limit = None if limit is None else limit - 1
            first = _after(packed, longest)

    def timeline_keys(
        self, key: ArtifactKey, *, after: ArtifactKey | None = None, limit: int | None = None
    ) -> Iterator[ArtifactKey]:
        start = b"\0" if after is None else after.pack()
        rows = self._rows(TIMELINE, (*_range(key), start, EVERYTHING if limit is None else limit))
        return (self._key(packed) for (packed,) in rows)

    def last_key(self, key: ArtifactKey) -> ArtifactKey | None:
        return self._first_key(LAST_KEY_IN, _range(key))

    def child_keys(
        self, key: ArtifactKey, *, after: ArtifactKey | None = None, limit: int | None = None
    ) -> Iterator[ArtifactKey]:
        parent = key.pack()
        length = len(parent) + SEGMENT_BYTES
        end = end_of_subtree(parent)
        first = parent + b"\0" if after is None else end_of_subtree(after.pack()[:length])
        while limit is None or limit > 0:
            below = self._first_key(NEXT_KEY, (first, end))
            if below is None:
                return
            child = below.pack()[:length]
            yield ArtifactKey.unpack(child)
            first = end_of_subtree(child)  # skips all that stands below this child
            limit = None if limit is None else limit - 1

    def count(self, key: ArtifactKey | None = None) -> int:
        (found,) = next(self._rows(COUNT, _range(key)))
        return int(found)

    def find_run(self, key: ArtifactKey) -> RunRow | None:
        row = next(self._rows(RUN, (key.pack(),)), None)
        return None if row is None else self._run(*row)

    def list_runs(
        self, *, before: ArtifactKey | None = None, limit: int | None = None, status: str | None = None
    ) -> list[RunRow]:
        end = LAST_KEY if before is None else before.pack()
        rows = self._rows(RUNS, (end, status, status, EVERYTHING if limit is None else limit))
        return [self._run(*row) for row in rows]

    def find_claim(self, run: ArtifactKey, node: str, attempt: int, delivery: int, role: str) -> ArtifactKey | None:
        return self._first_key(CLAIM, (run.pack(), node, attempt, delivery, role))

    def list_claims(self, run: ArtifactKey) -> list[Claim]:
        return [
            Claim(self._key(packed), node, attempt, delivery, role, self._key(key))
            for packed, node, attempt, delivery, role, key in self._rows(CLAIMS, (run.pack(),))
        ]

    def damaged(self, key: ArtifactKey | None = None) -> Iterator[str]:
        return damaged(self._connection, None if key is None else _range(key))

    def _rows(self, sql: str, values: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the rows of a query; what a damaged file does meanwhile is one typed error."""
        with typed_errors(self._where):
            yield from self._connection.execute(sql, values)

    def _first_key(self, sql: str, values: tuple[Any, ...]) -> ArtifactKey | None:
        """Return the key that a query finds first."""
        row = next(self._rows(sql, values), None)
        return None if row is None else self._key(row[0])

    def _key(self, packed: bytes) -> ArtifactKey:
        try:
            return ArtifactKey.unpack(packed)
        except InvalidKey as error:
            raise self._unreadable(packed) from error

    def _records(self, sql: str, values: tuple[Any, ...]) -> Iterator[Record]:
        unpack = ArtifactKey.unpack
        for packed, kind, digest, metadata, content, chunks in self._rows(sql, values):
            if type(kind) is not str or type(digest) is not bytes or type(metadata) is not bytes:
                raise self._unreadable(packed)
            try:  # written out, and not `_key_of`: a run is loaded by the thousand
                key = unpack(packed)
            except InvalidKey as error:
                raise self._unreadable(packed) from error
            if content is None:
                content = self._joined(key, self._chunk_hashes(packed, chunks))
            elif type(content) is not bytes:
                raise self._unreadable(packed)
            yield Record(key, kind, content, digest.hex(), metadata)

    def _key_of(self, packed: bytes, kind: str, digest: bytes, metadata: bytes) -> ArtifactKey:
        """Return the key of a row, whose other columns are of the types they were written with."""
        if type(kind) is str and type(digest) is bytes and type(metadata) is bytes:
            return self._key(packed)
        raise self._unreadable(packed)

    def _run(
        self,
        key: bytes,
        workflow_run_id: int,
        status: str,
        started_ms: int,
        ended_ms: int | None,
        head: bytes | None,
        owner: str,
    ) -> RunRow:
        try:
            head_hex = None if head is None else head.hex()
            return RunRow(ArtifactKey.unpack(key), workflow_run_id, status, started_ms, ended_ms, head_hex, owner)
        except (AttributeError, TypeError, InvalidKey) as error:
            raise self._unreadable(key) from error

    def _unreadable(self, packed: object) -> StoreDamaged:
        """A column of another type or length than was written."""
        return StoreDamaged(self._where, f"the row with key {packed!r:.80} cannot be read")

    def _glances(self, first: bytes, end: bytes, limit: int) -> Iterator[Glance]:
        rows = self._rows(GLANCE, (INLINE_BYTES, GLANCE_BYTES, first, end, limit))
        for row, packed, kind, digest, metadata, size_bytes, start, chunks in rows:
            key = self._key_of(packed, kind, digest, metadata)
            if size_bytes is None:
                size_bytes, start = self._glance_at_chunks(key, self._chunk_hashes(packed, chunks))
            elif type(size_bytes) is not int or type(start or b"") is not bytes:
                raise self._unreadable(packed)
            elif size_bytes >= INLINE_BYTES:
                start = self._start(row)
            start = start or b""  # SQLite's substr of nothing is null
            yield Glance(key, kind, digest.hex(), metadata, size_bytes, start)

    def _start(self, row: int) -> bytes:
        place = ("main", "artifact", "content", row, False)
        with typed_errors(self._where), self._connection.blob_open(*place) as blob:
            return bytes(blob.read(GLANCE_BYTES))

    def _chunk_hashes(self, packed: bytes, chunks: bytes | None) -> list[bytes]:
        """Return the hashes of the chunks of a content, which may be none."""
        if type(chunks or b"") is not bytes:
            raise self._unreadable(packed)
        return list(chunk_hashes(chunks or b""))

    def _glance_at_chunks(self, key: ArtifactKey, hashes: Sequence[bytes]) -> tuple[int, bytes]:
        """Return the size and the beginning of a content in chunks, reading only the first of them whole."""
        start = self._joined(key, hashes[:1])[:GLANCE_BYTES]
        with typed_errors(self._where):
            heads = list(self._connection.executemany(CHUNK_HEAD, ((ZSTD_HEAD_BYTES, digest) for digest in hashes)))
        with self._chunks_read(key):
            return sum(uncompressed_bytes(head) for (head,) in heads), start

    def _joined(self, key: ArtifactKey, hashes: Iterable[bytes]) -> bytes:
        parts = []
        for digest in hashes:
            row = next(self._rows(CHUNK, (digest,)), None)
            if row is None:
                raise StoreDamaged(self._where, f"chunk {digest.hex()} of {key} is missing")
            parts.append(row[0])
        with self._chunks_read(key):
            return join(parts)

    @contextmanager
    def _chunks_read(self, key: ArtifactKey) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # the decompressor has its own errors; each means the same
            raise StoreDamaged(self._where, f"a chunk of {key} cannot be read ({error})") from error


def _json_list(kinds: Sequence[str]) -> str:
    return "[" + ",".join(f'"{kind}"' for kind in kinds) + "]"


def _range(key: ArtifactKey | None) -> tuple[bytes, bytes]:
    if key is None:
        return b"", LAST_KEY
    packed = key.pack()
    return packed, end_of_subtree(packed)


def _after(packed: bytes, longest: int) -> bytes:
    """Return where the keys go on after `packed`, when none longer than `longest` is wanted."""
    return packed + b"\0" if len(packed) < longest else end_of_subtree(packed[:longest])
