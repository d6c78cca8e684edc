"""Writing the SQLite file: what happens inside one write transaction, and what has to be looked up for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sapwood.core.keys import SEGMENT_BYTES, ArtifactKey
from sapwood.core.record import Record
from sapwood.core.template import TemplateId, TemplateVersion
from sapwood.errors import DuplicateClaim, DuplicateKey, RunChanged, RunSealed, StoreDamaged
from sapwood.ports import Claim, RunEnd, RunStart
from sapwood.storage.rows import (
    INLINE_BYTES,
    claim_crc,
    compress,
    end_of_subtree,
    is_chunked,
    row_crc,
    run_crc,
    split,
    to_row,
)
from sapwood.storage.sqlite_damage import RUN_ROW
from sapwood.storage.sqlite_reader import COUNT, SqliteReader
from sapwood.storage.templates import is_version, template_id_of, to_version

INSERT = "insert into artifact (key, kind, hash, metadata, content, chunks, crc) values (?, ?, ?, ?, ?, ?, ?)"
INSERT_CHUNK = "insert into chunk (hash, data) select ?1, ?2 where not exists (select 1 from chunk where hash = ?1)"
INSERT_CLAIM = "insert into claim (run, node, attempt, delivery, role, key, crc) values (?, ?, ?, ?, ?, ?, ?)"
INSERT_TEMPLATE = "insert into template (template_id, hash, key) values (?, ?, ?)"
INSERT_RUN = (
    "insert into run (key, workflow_run_id, status, started_ms, ended_ms, head, owner, node_ids, artifact_ids, crc) "
    "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
CHANGE_RUN = (
    "update run set status = ?3, ended_ms = ?5, head = ?6, owner = ?7, node_ids = ?8, artifact_ids = ?9, crc = ?10 "
    "where key = ?1"
)
STATUS = "select status from run where key = ?"
MARK = "update mark set count = count + 1"
NEXT_RUN_ID = "update counter set last = last + 1 where name = 'workflow_run_id' returning last"
IS_STORED = "select 1 from artifact where key = ?"
IS_CLAIMED = "select 1 from claim where run = ? and node = ? and attempt = ? and delivery = ? and role = ?"
VERSION_KEY = "select key from template where template_id = ? and hash = ?"
HASHES = "select hash from template where template_id = ?"
FAMILY = (
    "select key from template where template_id = ?1 or (template_id >= ?1 || '.' and template_id < ?1 || '/') "
    "order by template_id, key"
)


class SqliteWriter:
    """The writing connection, while its store holds the lock on it."""

    def __init__(self, connection: Any, where: str) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._where = where

    def touch(self) -> None:
        """Change a row: SQLite would not sync a transaction that changes none."""
        self._execute(MARK)

    def stored(self, keys: Iterable[ArtifactKey]) -> set[ArtifactKey]:
        return {key for key in keys if self._execute(IS_STORED, (key.pack(),)).fetchone()}

    def next_workflow_run_id(self) -> int:
        return int(self._execute(NEXT_RUN_ID).fetchone()[0])

    def reserve_ids(self, run: ArtifactKey, nodes: int, artifacts: int) -> tuple[int, int]:
        self._refuse_sealed({run.pack()})
        row = self._execute(RUN_ROW, (run.pack(),)).fetchone()
        self._execute(CHANGE_RUN, _with_crc(*row[:7], row[7] + nodes, row[8] + artifacts))
        return row[7] + 1, row[8] + 1

    def change_owner(self, run: ArtifactKey, old: str, new: str) -> bool:
        row = self._execute(RUN_ROW, (run.pack(),)).fetchone()
        if row is None or row[2] != "running" or row[6] != old:
            return False
        self._execute(CHANGE_RUN, _with_crc(*row[:6], new, *row[7:9]))
        return True

    def insert(self, records: Sequence[Record], starts: Sequence[RunStart] = (), claims: Sequence[Claim] = ()) -> None:
        rows = self._insert_chunks(records)
        roots = {row[0][:SEGMENT_BYTES] for row in rows}
        self._refuse_sealed(roots.union(claim.run.pack() for claim in claims) if claims else roots)
        try:
            for start in starts:
                key, number, started_ms, owner, *ids = start
                self._execute(INSERT_RUN, _with_crc(key.pack(), number, "running", started_ms, None, None, owner, *ids))
            self._connection.executemany(INSERT, rows)
            for record in records:
                if is_version(record):
                    digest = bytes.fromhex(record.content_hash)
                    self._execute(INSERT_TEMPLATE, (template_id_of(record), digest, record.key.pack()))
            for claim in claims:
                self._execute(INSERT_CLAIM, (claim.run.pack(), *claim[1:5], claim.key.pack(), claim_crc(claim)))
        except _constraint():
            self._refuse_duplicates(records, claims)
            raise

    def _insert_chunks(self, records: Sequence[Record]) -> list[Any]:
        """Return the rows of the records; the contents of the large ones are stored first, each chunk once."""
        if max((len(record.content) for record in records), default=0) < INLINE_BYTES:
            return [to_row(record) for record in records]
        rows = []
        for record in records:
            row = to_row(record)
            if is_chunked(record):
                digests = []
                for digest, part in split(record.content):
                    digests.append(digest)
                    if not self._execute("select 1 from chunk where hash = ?", (digest,)).fetchone():
                        self._execute(INSERT_CHUNK, (digest, compress(part)))
                chunks = b"".join(digests)
                row = (*row[:4], None, chunks, row_crc(*row[:4], chunks))
            rows.append(row)
        return rows

    def _refuse_sealed(self, roots: Iterable[bytes]) -> None:
        for root in roots:
            row = self._execute(STATUS, (root,)).fetchone()
            if row is not None and row[0] != "running":
                raise RunSealed(ArtifactKey.unpack(root).text, row[0])

    def _refuse_duplicates(self, records: Sequence[Record], claims: Sequence[Claim]) -> None:
        """Undo the transaction and say which key or claim the database refused."""
        self._execute("rollback")
        seen: set[ArtifactKey] = set()
        twice = [record.key for record in records if record.key in seen or seen.add(record.key)]  # type: ignore[func-returns-value]  # add gives None
        stored = self.stored(record.key for record in records)
        if stored or twice:
            raise DuplicateKey([key.text for key in sorted(stored.union(twice))])
        for claim in claims:
            if self._execute(IS_CLAIMED, (claim.run.pack(), *claim[1:5])).fetchone():
                raise DuplicateClaim(f"{claim.run} {claim.node} {claim.attempt}.{claim.delivery} {claim.role}")

    def end_run(self, end: RunEnd, records: Sequence[Record]) -> None:
        key = end.key.pack()
        found = self._execute(COUNT, (key, end_of_subtree(key))).fetchone()[0] - len(records)
        if found != end.judged:
            raise RunChanged(end.key.text, end.judged, found)
        row = self._execute(RUN_ROW, (key,)).fetchone()
        ended = (end.status, row[3], end.ended_ms, bytes.fromhex(end.head))
        self._execute(CHANGE_RUN, _with_crc(*row[:2], *ended, *row[6:9]))

    def find_version(self, template_id: TemplateId, content_hash: str) -> TemplateVersion | None:
        row = self._execute(VERSION_KEY, (template_id.text, bytes.fromhex(content_hash))).fetchone()
        return None if row is None else self._version_at(row[0])

    def known_hashes(self, template_ids: Iterable[TemplateId]) -> set[tuple[str, str]]:
        return {
            (template_id.text, digest.hex())
            for template_id in template_ids
            for (digest,) in self._execute(HASHES, (template_id.text,))
            if type(digest) is bytes  # any other is decay: its text counts as new, and `verify` finds the row
        }

    def list_versions(self, prefix: str) -> Sequence[TemplateVersion]:
        keys = [key for (key,) in self._execute(FAMILY, (prefix.rstrip("."),))]
        return [self._version_at(key) for key in keys]

    def _version_at(self, packed: bytes) -> TemplateVersion:
        record = SqliteReader(self._connection, self._where).find(ArtifactKey.unpack(packed))
        if record is None:
            raise StoreDamaged(self._where, f"template {ArtifactKey.unpack(packed)} has lost its text")
        return to_version(record)


def _with_crc(*columns: Any) -> tuple[Any, ...]:
    return *columns, run_crc(*columns)


def _constraint() -> type[Exception]:
    import apsw

    constraint: type[Exception] = apsw.ConstraintError
    return constraint
