"""What is wrong with the SQLite file: rows that decayed, indexes that lie, guards that were taken away.

Contents and chunks have hashes of their own, which `verify` compares; everything else that could be read is looked at
here. Nothing is repaired.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sapwood.core.keys import ArtifactKey
from sapwood.errors import SapwoodError
from sapwood.ports import Claim
from sapwood.storage.migrate import load_migrations
from sapwood.storage.rows import LAST_KEY, claim_crc, row_crc, run_crc
from sapwood.storage.sqlite_file import typed_errors

MOST_OF_STRUCTURE: Final = 100  # findings of SQLite's own check; a broken page has thousands

ROWS = "select id, key, kind, hash, metadata, chunks, crc from artifact where key >= ? and key < ? order by key"
CLAIMS = "select run, node, attempt, delivery, role, key, crc from claim where run >= ? and run < ?"
RUN_ROW = (
    "select key, workflow_run_id, status, started_ms, ended_ms, head, owner, node_ids, artifact_ids, crc from run "
    "where key = ?"
)
RUN_ROWS = RUN_ROW.replace("key = ?", "key >= ? and key < ?")
TEMPLATES = (
    "select template.template_id, template.key, template.hash is artifact.hash and artifact.kind = 'PromptTemplate' "
    "and cast(artifact.metadata as text) ->> '$.template_id' is template.template_id "
    "from template left join artifact on artifact.key = template.key"
)
UNLISTED_TEMPLATES = (
    "select key from artifact where kind = 'PromptTemplate' and length(key) = 16 "
    "and not exists (select 1 from template where template.key = artifact.key)"
)
COUNTER = "select last from counter where name = 'workflow_run_id'"
LAST_RUN_ID = "select coalesce(max(workflow_run_id), 0) from run"
SCHEMA = "select type, name, tbl_name, sql from sqlite_schema where name not like 'sqlite_%'"


def damaged(connection: Any, keys: tuple[bytes, bytes] | None) -> Iterator[str]:
    """Yield, in words, what is not as it was written: of the rows in this range of keys, or of the whole file."""
    checks = [_artifacts, _runs, _claims]
    for check in checks if keys is not None else [_structure, _schema, *checks, _templates, _counter]:
        try:
            with typed_errors("file"):
                yield from check(connection, keys or (b"", LAST_KEY))
        except (SapwoodError, AttributeError, TypeError, ValueError) as error:  # a column of another type than written
            yield f"{check.__name__.strip('_')} cannot be read: {error}"


def _structure(connection: Any, _keys: tuple[bytes, bytes]) -> Iterator[str]:
    for (words,) in connection.execute(f"pragma integrity_check({MOST_OF_STRUCTURE})"):
        if words != "ok":
            yield words


def _schema(connection: Any, _keys: tuple[bytes, bytes]) -> Iterator[str]:
    """The tables and triggers are those of the migrations. Other tables are no concern; a foreign trigger is."""
    import apsw

    fresh = apsw.Connection(":memory:")
    for sql in load_migrations("sqlite"):
        fresh.execute(sql)
    expected, found = set(fresh.execute(SCHEMA)), set(connection.execute(SCHEMA))
    fresh.close()
    yield from sorted(f"{row[0]} {row[1]} was removed or changed" for row in expected - found)
    names = {row[1] for row in expected}
    yield from sorted(f"trigger {row[1]} is not ours" for row in found if row[0] == "trigger" and row[1] not in names)


def _artifacts(connection: Any, keys: tuple[bytes, bytes]) -> Iterator[str]:
    for number, packed, kind, digest, metadata, chunks, crc in connection.execute(ROWS, keys):
        try:
            is_sound = row_crc(packed, kind, digest, metadata, chunks or b"") == crc
        except (AttributeError, TypeError):
            is_sound = False
        if not is_sound:
            yield f"artifact row {number}"


def _runs(connection: Any, keys: tuple[bytes, bytes]) -> Iterator[str]:
    for row in connection.execute(RUN_ROWS, keys):
        if run_crc(*row[:-1]) != row[-1]:
            yield f"run row {row[0].hex()}"


def _claims(connection: Any, keys: tuple[bytes, bytes]) -> Iterator[str]:
    unpack = ArtifactKey.unpack
    for run, node, attempt, delivery, role, key, crc in connection.execute(CLAIMS, keys):
        if claim_crc(Claim(unpack(run), node, attempt, delivery, role, unpack(key))) != crc:
            yield f"claim of {unpack(run)} {node} {attempt}.{delivery} {role}"


def _templates(connection: Any, _keys: tuple[bytes, bytes]) -> Iterator[str]:
    for template_id, key, is_sound in connection.execute(TEMPLATES):
        if not is_sound:
            yield f"template row {template_id} {key.hex()}"
    for (key,) in connection.execute(UNLISTED_TEMPLATES):
        yield f"template {key.hex()} has no row"


def _counter(connection: Any, _keys: tuple[bytes, bytes]) -> Iterator[str]:
    row = connection.execute(COUNTER).fetchone()
    if row is None or row[0] < connection.execute(LAST_RUN_ID).fetchone()[0]:
        yield "the counter of workflow_run_id"
