"""Reading the SQLite file: one connection in one read transaction, so that everything was read at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sapwood.core.keys import SEGMENT_BYTES, ArtifactKey
from sapwood.core.record import Record
from sapwood.errors import InvalidKey, StoreDamaged
from sapwood.ports import GLANCE_BYTES, Claim, Glance, Outline, RunRow
from sapwood.storage.rows import (
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
GLANCE = (
    "select key, kind, hash, metadata, length(content), substr(content, 1, ?), chunks from artifact "
    "where key >= ? and key < ? order by key limit ?"
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
        row = next(self._rows(FIND, (key.pack(),)), None)
        return None if row is None else self._record(*row)

    def load(
        self, key: ArtifactKey | None = None, *, after: ArtifactKey | None = None, limit: int | None = None
    ) -> Iterator[Record]:
        first, end = _range(key)
        if after is not None:
            first = max(first, after.pack() + b"\0")
        rows = self._rows(LOAD, (first, end, EVERYTHING if limit is None else limit))
        record = self._record
        return (record(*row) for row in rows)

    def load_kinds(self, key: ArtifactKey | None, kinds: Sequence[str]) -> Iterator[Record]:
        rows = self._rows(LOAD_KINDS, (*_range(key), _json_list(kinds)))
        record = self._record
        return (record(*row) for row in rows)

    def outline(self, key: ArtifactKey | None = None, kinds: Sequence[str] | None = None) -> Iterator[Outline]:
        if kinds is None:
            rows = self._rows(OUTLINE, _range(key))
        else:
            rows = self._rows(OUTLINE_KINDS, (*_range(key), _json_list(kinds)))
        unpack = ArtifactKey.unpack
        for packed, kind, digest, metadata in rows:  # written out: a seal reads every artifact of its run this way
            if type(kind) is not str or type(digest) is not bytes or type(metadata) is not bytes:
                raise self._unreadable(packed)
            try:
                outline = Outline(unpack(packed), kind, digest.hex(), metadata)
            except InvalidKey as error:
                raise self._unreadable(packed) from error
            yield outline

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
            packed = self._connection.execute(NEXT_KEY, (first, end)).fetchone()
            if packed is None:
                return
            if len(packed[0]) <= longest:
                yield from self._glances(packed[0], end, 1)
                limit = None if limit is None else limit - 1
            first = _after(packed[0], longest)

    def timeline_keys(
        self, key: ArtifactKey, *, after: ArtifactKey | None = None, limit: int | None = None
    ) -> Iterator[ArtifactKey]:
        start = b"\0" if after is None else after.pack()
        rows = self._rows(TIMELINE, (*_range(key), start, EVERYTHING if limit is None else limit))
        return (ArtifactKey.unpack(packed) for (packed,) in rows)

    def last_key(self, key: ArtifactKey) -> ArtifactKey | None:
        row = self._connection.execute(LAST_KEY_IN, _range(key)).fetchone()
        return None if row is None else ArtifactKey.unpack(row[0])

    def child_keys(
        self, key: ArtifactKey, *, after: ArtifactKey | None = None, limit: int | None = None
    ) -> Iterator[ArtifactKey]:
        parent = key.pack()
        length = len(parent) + SEGMENT_BYTES
        end = end_of_subtree(parent)
        first = parent + b"\0" if after is None else end_of_subtree(after.pack()[:length])
        while limit is None or limit > 0:
            row = self._connection.execute(NEXT_KEY, (first, end)).fetchone()
            if row is None:
                return
            child = row[0][:length]
            yield ArtifactKey.unpack(child)
            first = end_of_subtree(child)  # skips all that stands below this child
            limit = None if limit is None else limit - 1

    def count(self, key: ArtifactKey | None = None) -> int:
        return int(self._connection.execute(COUNT, _range(key)).fetchone()[0])

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
        row = self._connection.execute(CLAIM, (run.pack(), node, attempt, delivery, role)).fetchone()
        return None if row is None else ArtifactKey.unpack(row[0])

    def list_claims(self, run: ArtifactKey) -> list[Claim]:
        unpack = ArtifactKey.unpack
        return [
            Claim(unpack(packed), node, attempt, delivery, role, unpack(key))
            for packed, node, attempt, delivery, role, key in self._rows(CLAIMS, (run.pack(),))
        ]

    def damaged(self, key: ArtifactKey | None = None) -> Iterator[str]:
        return damaged(self._connection, None if key is None else _range(key))

    def _rows(self, sql: str, values: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the rows of a query; what a damaged file does meanwhile is one typed error."""
        try:
            with typed_errors(self._where):
                yield from self._connection.execute(sql, values)
        except UnicodeDecodeError as error:
            raise StoreDamaged(self._where, f"a text in it is no UTF-8 ({error})") from error

    def _record(
        self, packed: bytes, kind: str, digest: bytes, metadata: bytes, content: bytes | None, chunks: bytes | None
    ) -> Record:
        if content is None:
            key, kind, content_hash, metadata = self._outline(packed, kind, digest, metadata)
            return Record(key, kind, self._joined(key, chunks or b""), content_hash, metadata)
        if (
            type(kind) is not str
            or type(digest) is not bytes
            or type(metadata) is not bytes
            or type(content) is not bytes
        ):
            raise self._unreadable(packed)
        try:
            return Record(ArtifactKey.unpack(packed), kind, content, digest.hex(), metadata)
        except (TypeError, InvalidKey) as error:
            raise self._unreadable(packed) from error

    def _outline(self, packed: bytes, kind: str, digest: bytes, metadata: bytes) -> Outline:
        if type(kind) is not str or type(digest) is not bytes or type(metadata) is not bytes:
            raise self._unreadable(packed)
        try:
            return Outline(ArtifactKey.unpack(packed), kind, digest.hex(), metadata)
        except (TypeError, InvalidKey) as error:
            raise self._unreadable(packed) from error

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
        rows = self._rows(GLANCE, (GLANCE_BYTES, first, end, limit))
        for packed, kind, digest, metadata, size_bytes, start, chunks in rows:
            outline = self._outline(packed, kind, digest, metadata)
            if size_bytes is None:
                size_bytes, start = self._glance_at_chunks(outline.key, chunks or b"")
            yield Glance(*outline, size_bytes, start or b"")  # SQLite's substr of nothing is null

    def _glance_at_chunks(self, key: ArtifactKey, chunks: bytes) -> tuple[int, bytes]:
        """Return the size and the beginning of a content in chunks, reading only the first of them whole."""
        hashes = list(chunk_hashes(chunks))
        start = self._joined(key, hashes[0])[:GLANCE_BYTES] if hashes else b""
        heads = self._connection.executemany(CHUNK_HEAD, ((ZSTD_HEAD_BYTES, digest) for digest in hashes))
        return sum(uncompressed_bytes(head) for (head,) in heads), start

    def _joined(self, key: ArtifactKey, chunks: bytes) -> bytes:
        parts = []
        for digest in chunk_hashes(chunks):
            row = self._connection.execute(CHUNK, (digest,)).fetchone()
            if row is None:
                raise StoreDamaged(self._where, f"chunk {digest.hex()} of {key} is missing")
            parts.append(row[0])
        try:
            return join(parts)
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
