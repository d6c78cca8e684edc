"""Somebody edits the file with SQL: the database refuses, or a head that was kept elsewhere tells.

Each edit is tried three times with the triggers taken away and put back: plainly, with every hash and checksum
computed anew, and with the Seal and the index made to fit as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest

from sapwood import ArtifactKey
from sapwood.app import open_store
from sapwood.core import rebuild as rebuild_module
from sapwood.core.seal import summarise
from sapwood.errors import NotFound
from sapwood.ports import Outline
from sapwood.storage.rows import chunk_hashes, compress, end_of_subtree, join, row_crc, run_crc
from sapwood.storage.sqlite_damage import RUN_ROW
from tests.crash.full_store import TEMPLATE, build_store, copy_store

TRIGGERS = "select name, sql from sqlite_schema where type = 'trigger'"
IN_RUN = "key >= :run and key < :end"
OF_KIND = f"select id from artifact where {IN_RUN} and kind = :kind order by key limit 1"

Edit = Callable[["Tampered"], None]


class Tampered:
    """A run under the hands of somebody who can write SQL."""

    def __init__(self, path: Path, run: str) -> None:
        self.run = ArtifactKey(run).pack()
        self.db = apsw.Connection(str(path))

    def sql(self, text: str, **values: Any) -> list[Any]:
        return list(self.db.execute(text, {"run": self.run, "end": end_of_subtree(self.run), **values}))

    def id_of(self, kind: str) -> int:
        return int(self.sql(OF_KIND, kind=kind)[0][0])

    def key_of(self, kind: str) -> bytes:
        return bytes(self.sql("select key from artifact where id = :id", id=self.id_of(kind))[0][0])

    def set(self, kind: str, column: str, value: object) -> None:
        self.sql(f"update artifact set {column} = :value where id = :id", value=value, id=self.id_of(kind))

    def without_triggers(self, edit: Edit) -> None:
        triggers = self.sql(TRIGGERS)
        for name, _ in triggers:
            self.sql(f"drop trigger {name}")
        edit(self)
        for _, sql in triggers:
            self.sql(sql)

    def rehash(self) -> None:
        """Give every row the hash and the checksum of what it now holds."""
        rows = self.sql(f"select id, key, kind, metadata, content, chunks from artifact where {IN_RUN}")
        for number, key, kind, metadata, content, chunks in rows:
            digest = sha256(self.content_of(content, chunks)).digest()
            crc = row_crc(key, kind, digest, metadata, chunks or b"")
            self.sql("update artifact set hash = :hash, crc = :crc where id = :id", hash=digest, crc=crc, id=number)

    def content_of(self, content: bytes | None, chunks: bytes | None) -> bytes:
        if content is not None:
            return content
        select = "select data from chunk where hash = :hash"
        return join(self.sql(select, hash=digest)[0][0] for digest in chunk_hashes(chunks or b""))

    def reseal(self) -> None:
        """Write a Seal and a row of the index that fit the artifacts as they are now."""
        self.rehash()
        rows = self.sql(f"select key, kind, hash, metadata from artifact where {IN_RUN} order by key")
        outline = [Outline(ArtifactKey.unpack(key), kind, digest.hex(), meta) for key, kind, digest, meta in rows]
        summary = summarise(outline)
        for seal, content in self.sql(f"select id, content from artifact where {IN_RUN} and kind = 'Seal'"):
            said = {**json.loads(content), "head": summary.head, "counts": summary.counts}
            content = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
            self.sql("update artifact set content = :content where id = :id", content=content, id=seal)
        self.rehash()
        for row in self.sql(RUN_ROW.replace("?", ":run")):
            columns = (*row[:5], bytes.fromhex(summary.head), *row[6:9])
            crc = run_crc(*columns)
            self.sql("update run set head = :head, crc = :crc where key = :run", head=columns[5], crc=crc)


def delete(kind: str) -> Edit:
    def edit(tampered: Tampered) -> None:
        tampered.sql("delete from artifact where id = :id", id=tampered.id_of(kind))

    return edit


def delete_below(kind: str) -> Edit:
    def edit(tampered: Tampered) -> None:
        key = tampered.key_of(kind)
        tampered.sql("delete from artifact where key >= :key and key < :after", key=key, after=end_of_subtree(key))

    return edit


def replace(kind: str, column: str, value: object) -> Edit:
    return lambda tampered: tampered.set(kind, column, value)


def insert(parent: str, kind: str, content: bytes, metadata: bytes = b"{}") -> Edit:
    def edit(tampered: Tampered) -> None:
        key = tampered.key_of(parent) + bytes(16)
        digest = sha256(content).digest()
        tampered.sql(
            "insert into artifact (key, kind, hash, metadata, content, crc) "
            "values (:key, :kind, :hash, :metadata, :content, :crc)",
            key=key, kind=kind, hash=digest, metadata=metadata, content=content, crc=row_crc(key, kind, digest, metadata),
        )  # fmt: skip

    return edit


def insert_or_replace(kind: str, content: bytes) -> Edit:
    def edit(tampered: Tampered) -> None:
        tampered.sql(
            "insert or replace into artifact (id, key, kind, hash, metadata, content, crc) "
            "select id, key, kind, :hash, metadata, :content, crc from artifact where id = :id",
            hash=sha256(content).digest(), content=content, id=tampered.id_of(kind),
        )  # fmt: skip

    return edit


def move(kind: str, below: str) -> Edit:
    """Give the artifact another parent, and take along all that stands below it."""

    def edit(tampered: Tampered) -> None:
        old = tampered.key_of(kind)
        new = tampered.key_of(below) + old[-16:]
        tampered.sql(
            "update artifact set key = cast(:new || substr(key, length(:old) + 1) as blob) "
            "where key >= :old and key < :after",
            old=old, new=new, after=end_of_subtree(old),
        )  # fmt: skip

    return edit


def swap(column: str, one: str, other: str) -> Edit:
    def edit(tampered: Tampered) -> None:
        first, second = tampered.id_of(one), tampered.id_of(other)
        select = f"select {column} from artifact where id = :id"
        values = [tampered.sql(select, id=number)[0][0] for number in (first, second)]
        update = f"update artifact set {column} = :value where id = :id"
        tampered.sql(update, value=bytes(16), id=first)
        tampered.sql(update, value=values[0], id=second)
        tampered.sql(update, value=values[1], id=first)

    return edit


def later(kind: str) -> Edit:
    """Move the artifact in time, to behind all its siblings."""

    def edit(tampered: Tampered) -> None:
        key = tampered.key_of(kind)
        tampered.set(kind, "key", key[:-16] + b"\x7f" + key[-15:])

    return edit


def change_chunk(tampered: Tampered) -> None:
    chunks = tampered.sql("select chunks from artifact where id = :id", id=tampered.id_of("ToolInput"))[0][0]
    tampered.sql(
        "update chunk set data = :data where hash = :hash", hash=chunks[:32], data=compress(b'{"large":"other"}')
    )


def other_chunk(tampered: Tampered) -> None:
    data = b'{"large":"other"}'
    digest = sha256(data).digest()
    tampered.sql("insert into chunk (hash, data) values (:hash, :data)", hash=digest, data=compress(data))
    tampered.set("ToolInput", "chunks", digest)


def change_template(tampered: Tampered) -> None:
    replace_template(tampered, b"Token {{ token }}, not {{ filler }}\n")


def change_template_unseen(tampered: Tampered) -> None:
    """The prompt renders as before, so that only the hash in the reference tells."""
    replace_template(tampered, TEMPLATE.replace("Token", "{# nothing #}Token").encode())


def replace_template(tampered: Tampered, content: bytes) -> None:
    digest = sha256(content).digest()
    for number, key, kind, metadata in tampered.sql(
        "select id, key, kind, metadata from artifact where kind = 'PromptTemplate'"
    ):
        tampered.sql(
            "update artifact set content = :content, hash = :hash, crc = :crc where id = :id",
            content=content, hash=digest, crc=row_crc(key, kind, digest, metadata), id=number,
        )  # fmt: skip
        tampered.sql("update template set hash = :hash where key = :key", hash=digest, key=key)


def forget_run(tampered: Tampered) -> None:
    tampered.sql(f"delete from artifact where {IN_RUN}")
    tampered.sql("delete from run where key = :run")


def delete_index_row(tampered: Tampered) -> None:
    tampered.sql("delete from run where key = :run")


EDITS: dict[str, Edit] = {
    **{f"delete {kind}": delete(kind) for kind in ("Note", "ToolCallArtifact", "PromptContribution", "PromptArgs")},
    **{f"delete {kind}": delete(kind) for kind in ("Execution", "AgentResult", "OutcomeEvidence", "InputArtifacts")},
    "delete Seal": delete("Seal"),
    "delete the agent and all below": delete_below("AgentRequest"),
    "delete the run": forget_run,
    "delete the row of the index": delete_index_row,
    "insert a note": insert("AgentResult", "Note", b"never said", b'{"media":"text"}'),
    "insert an outcome": insert("OutcomeEvidenceArtifacts", "OutcomeEvidence", b'{"name":"merge","passed":true}'),
    "insert an orphan": insert("ToolOutput", "ToolOutput", b"1"),
    "insert a second Seal": insert("Execution", "Seal", b'{"counts":{},"head":"00","status":"completed"}'),
    "insert or replace the report": insert_or_replace("Report", b"# Another report"),
    "replace the report": replace("Report", "content", b"# Another report"),
    "replace the prompt": replace("RenderedPrompt", "content", b"Another prompt"),
    "replace the outcome": replace("OutcomeEvidence", "content", b'{"evidence":{},"name":"tests","passed":false}'),
    "replace the metadata": replace("Report", "metadata", b'{"artifact_id":99,"media":"text"}'),
    "replace the kind": replace("Report", "kind", "Note"),
    "replace a chunk": change_chunk,
    "replace the list of chunks": other_chunk,
    "replace the template": change_template,
    "replace the template by an equal one": change_template_unseen,
    "re-parent the tool call": move("ToolCallArtifact", "OutcomeEvidenceArtifacts"),
    "re-parent the agent": move("AgentRequest", "InputArtifacts"),
    "re-order two siblings": swap("key", "ToolInput", "ToolOutput"),
    "re-order two groups": swap("key", "InputArtifacts", "OutcomeEvidenceArtifacts"),
    "re-order in time": later("ToolCallArtifact"),
    "swap two contents": swap("content", "Report", "Note"),
    "re-hash to nothing": replace("Report", "hash", bytes(32)),
    "re-hash as another": swap("hash", "Report", "Note"),
}
REPAIRS: dict[str, Edit] = {"plainly": lambda _: None, "rehashed": Tampered.rehash, "resealed": Tampered.reseal}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    path = tmp_path_factory.mktemp("tampering") / "original.db"
    return path, build_store(path).heads


def is_found(path: Path, run: str, head: str) -> bool:
    with open_store(path, create=False) as store:
        try:
            return not store.verify(run, head=head).is_ok
        except NotFound:
            return True


def tamper(path: Path, run: str, edit: Edit, repair: Edit) -> None:
    tampered = Tampered(path, run)

    def edit_and_repair(tampered: Tampered) -> None:
        edit(tampered)
        repair(tampered)

    try:
        tampered.without_triggers(edit_and_repair)
    finally:
        tampered.db.close()


MATRIX = [  # an edit of hashes is undone, not hidden, by computing them anew
    (edit, repair) for edit in EDITS for repair in REPAIRS if repair == "plainly" or not edit.startswith("re-hash")
]


@pytest.mark.parametrize(("edit", "repair"), MATRIX)
def test_an_edit_behind_the_triggers_is_found_against_a_head_kept_outside(
    original: tuple[Path, dict[str, str]], tmp_path: Path, edit: str, repair: str
) -> None:
    source, heads = original
    path, (run, head) = copy_store(source, tmp_path / "s.db"), next(iter(heads.items()))
    assert not is_found(path, run, head)
    tamper(path, run, EDITS[edit], REPAIRS[repair])
    assert is_found(path, run, head)


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_refused_by_the_database_or_found(
    original: tuple[Path, dict[str, str]], tmp_path: Path, edit: str
) -> None:
    source, heads = original
    path, (run, head) = copy_store(source, tmp_path / "s.db"), next(iter(heads.items()))
    tampered = Tampered(path, run)
    try:
        EDITS[edit](tampered)
    except apsw.ConstraintError:
        assert not is_found(path, run, head)  # refused, and nothing of it has stayed
    else:
        assert edit.startswith("insert"), "a change or a removal got past the triggers"
        tampered.db.close()
        assert is_found(path, run, head)
    finally:
        tampered.db.close()


def test_triggers_that_were_taken_away_are_missed(original: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    path = copy_store(original[0], tmp_path / "s.db")
    tampered = Tampered(path, next(iter(original[1])))
    tampered.sql("drop trigger artifact_remains")
    tampered.sql("create trigger theirs after insert on artifact begin delete from chunk; end")
    tampered.db.close()
    with open_store(path, create=False) as store:
        assert [finding.message for finding in store.verify().findings if finding.is_failure] == [
            "trigger artifact_remains was removed or changed",
            "trigger theirs is not ours",
        ]


def test_an_index_that_contradicts_the_seal_is_found_without_a_head_from_outside(
    original: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    path, run = copy_store(original[0], tmp_path / "s.db"), next(iter(original[1]))

    def call_it_failed(tampered: Tampered) -> None:
        (row,) = tampered.sql(RUN_ROW.replace("?", ":run"))
        crc = run_crc(*row[:2], "failed", *row[3:9])
        tampered.sql("update run set status = 'failed', crc = :crc where key = :run", crc=crc)

    tamper(path, run, call_it_failed, REPAIRS["plainly"])
    with open_store(path, create=False) as store:
        assert [finding.code for finding in store.verify(run).findings] == ["index_differs"]


@pytest.mark.mutant
def test_without_the_head_from_outside_a_resealed_edit_is_not_found(
    original: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    path, run = copy_store(original[0], tmp_path / "s.db"), next(iter(original[1]))
    tamper(path, run, EDITS["replace the report"], Tampered.reseal)
    with open_store(path, create=False) as store:
        assert store.verify(run).is_ok
        assert store.verify().is_ok


@pytest.mark.mutant
def test_without_the_comparison_of_hashes_a_plain_edit_is_not_found(
    original: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, (run, head) = copy_store(original[0], tmp_path / "s.db"), next(iter(original[1].items()))
    tamper(path, run, EDITS["replace the report"], REPAIRS["plainly"])
    assert is_found(path, run, head)

    class Agrees:
        def __init__(self, _content: bytes) -> None: ...

        def hexdigest(self) -> Any:
            class Anything(str):
                def __ne__(self, _other: object) -> bool:
                    return False

            return Anything()

    monkeypatch.setattr(rebuild_module, "sha256", Agrees)
    assert not is_found(path, run, head)
