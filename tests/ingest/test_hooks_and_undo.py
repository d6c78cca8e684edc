"""Documents land only where they may, the hooks run when they are asked to, and a document can be undone."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

import sapwood
from sapwood.clock import KeyFactory
from sapwood.core.artifacts import IngestedFile, IngestManifest
from sapwood.core.codec import from_record, to_record
from sapwood.core.ingest_manifest import Source
from sapwood.core.ingest_settings import IngestSettings
from sapwood.ingest.durable import Sync
from sapwood.ingest.hooks import IngestHooks, Origin, write_document
from sapwood.ingest.ingest import ingest
from sapwood.ingest.recorded import artifacts_of
from sapwood.ingest.undo import undo_manifest
from sapwood.ingest.workspace import Project

BLOCK = "```text file=a/b.txt\nnew\n```\n"
SOURCE = Source("run", "node", "graph_runtime", "single", "docs/x.md")


def test_a_document_lands_below_docs_and_audits(tmp_path: Path) -> None:
    write_document(tmp_path, "docs/deep/x.md", "one")
    write_document(tmp_path, "docs/deep/x.md", "two")
    write_document(tmp_path, "audits/y.md", "three")
    assert (tmp_path / "docs/deep/x.md").read_text() == "two"
    assert (tmp_path / "audits/y.md").read_text() == "three"


@pytest.mark.parametrize("path", ["x.md", "docs", "src/x.md", "docs/../x.md", "/docs/x.md", "docs/", "Docs/x.md", ""])
def test_a_document_elsewhere_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(sapwood.PathRefused):
        write_document(tmp_path, path, "x")
    assert list(tmp_path.iterdir()) == []


def test_a_document_through_a_link_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "docs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(sapwood.DocumentNotWritten):
        write_document(tmp_path, "docs/x.md", "x")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_first_hook_is_off_unless_turned_on(tmp_path: Path) -> None:
    assert IngestHooks(tmp_path).after_document(BLOCK, "docs/x.md", Origin("run", "node")) is None
    assert not (tmp_path / "workspace").exists()
    done = IngestHooks(tmp_path, is_on=True).after_document(BLOCK, "docs/x.md", Origin("run", "node", mode="team"))
    assert done is not None
    assert done.manifest["source"] == {"kind": "graph_runtime", "mode": "team", "doc_path": "docs/x.md"}
    with pytest.raises(sapwood.PathRefused):
        IngestHooks(tmp_path, is_on=True).after_document(BLOCK, "src/x.md", Origin("run", "node"))


def test_the_second_hook_is_opt_in_and_never_runs_where_the_first_has(tmp_path: Path) -> None:
    origin = Origin("run", "node")
    assert IngestHooks(tmp_path, is_on=True).after_text(BLOCK, "-", origin) is None
    hooks = IngestHooks(tmp_path, is_on=True, is_on_for_text=True)
    assert hooks.after_document("no blocks", "docs/x.md", origin) is not None
    assert hooks.after_text(BLOCK, "-", origin) is None
    other = hooks.after_text(BLOCK, "-", Origin("run", "node", attempt=2))
    assert other is not None
    assert other.manifest["source"]["kind"] == "cli"


def test_undo_puts_back_what_was_there(tmp_path: Path) -> None:
    kept = tmp_path / "workspace" / "kept.sh"
    kept.parent.mkdir()
    kept.write_text("before\n")
    kept.chmod(0o750)
    document = BLOCK + "```sh file=kept.sh\nafter\n```\n```sh file=touched\nx\n```\n"
    done = ingest(document, Project(tmp_path), SOURCE, IngestSettings())
    assert kept.read_text() == "after\n"
    assert kept.stat().st_mode & 0o777 == 0o640
    (tmp_path / "workspace" / "touched").write_text("by hand")
    undone = {"/".join(undone.parts): undone.what for undone in undo_manifest(tmp_path, done.manifest_path)}
    assert undone == {"a/b.txt": "removed", "kept.sh": "restored", "touched": "changed since, left alone"}
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("before\n", 0o750)
    assert sorted(path.name for path in (tmp_path / "workspace").iterdir()) == ["kept.sh", "touched"]


def test_a_document_is_undone_once(tmp_path: Path) -> None:
    done = ingest(BLOCK, Project(tmp_path), SOURCE, IngestSettings())
    undo_manifest(tmp_path, done.manifest_path)
    with pytest.raises(sapwood.NotFound):
        undo_manifest(tmp_path, done.manifest_path)


def test_an_ingested_document_is_recorded_with_every_file_and_what_it_replaced(tmp_path: Path) -> None:
    (tmp_path / "workspace" / "a").mkdir(parents=True)
    (tmp_path / "workspace" / "a" / "b.txt").write_bytes(b"old\xff")
    done = ingest(BLOCK + "```sh file=c\n```\n", Project(tmp_path), SOURCE, IngestSettings())
    keys = KeyFactory()
    parent = keys.root()
    recorded = list(artifacts_of(done, tmp_path, parent, keys.child))
    manifest, before, written, fresh = recorded
    assert isinstance(manifest, IngestManifest)
    assert manifest.manifest == done.manifest
    assert manifest.key.parent == parent
    files = [artifact for artifact in (before, written, fresh) if isinstance(artifact, IngestedFile)]
    assert [(file.role, file.data, file.block_index) for file in files] == [
        ("before", b"old\xff", 0),
        ("written", b"new\n", 0),
        ("written", b"", 1),
    ]
    assert [file.previous for file in files[1:]] == [before.key, None]
    assert [from_record(to_record(artifact)) for artifact in recorded] == recorded


def test_manifests_are_numbered_and_their_names_are_safe(tmp_path: Path) -> None:
    for attempt in (1, 1, 2):
        sapwood.ingest_document(
            BLOCK, tmp_path, run_id="ak:01HQXK5V8RPZM4J3NHWGC7SDFG", node_id="pick", attempt=attempt
        )
    sapwood.ingest_document(BLOCK, tmp_path, run_id="../../evil", node_id="a/b\nc")
    names = sorted(str(path.relative_to(tmp_path / ".sapwood/ingest")) for path in tmp_path.rglob("*.json"))
    assert names[:3] == [f"01HQXK5V8RPZM4J3NHWGC7SDFG/pick-{number}.json" for number in ("1-1", "1-2", "2-1")]
    assert names[3].startswith("_.._evil_")
    assert "/a_b_c_" in names[3]
    assert len(names) == 4


def test_fail_is_an_error_that_carries_the_manifest(tmp_path: Path) -> None:
    with pytest.raises(sapwood.IngestFailed) as failed:
        sapwood.ingest_document(
            BLOCK + "```sh file=../x\n```\n", tmp_path, run_id="r", node_id="n", settings={"on_error": "fail"}
        )
    assert failed.value.manifest["summary"] == {"total_blocks": 2, "written": 1, "skipped": 0, "rejected": 1}
    assert (tmp_path / "workspace/a/b.txt").read_text() == "new\n"


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ({"deny_names": False}, ".git/config"),
        ({"deny_names": ()}, ".ENV"),
        ({"portable_names": False}, "CON:1?"),
        ({"visible_names": False}, "a\u200bb"),
    ],
)
def test_each_name_rule_has_a_permissive_value(setting: dict[str, object], path: str, tmp_path: Path) -> None:
    document = f"```text file={path}\nx\n```\n"
    strict = sapwood.ingest_document(document, tmp_path, run_id="r", node_id="n")
    assert strict["summary"]["rejected"] == 1
    loose = sapwood.ingest_document(document, tmp_path, run_id="r", node_id="n", settings=setting)
    assert loose["summary"]["written"] == 1


@pytest.mark.parametrize("setting", [{"max_blok": 1}, {"on_error": "maybe"}, {"max_blocks": -1}, {"deny_names": "x"}])
def test_wrong_settings_are_refused(setting: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(sapwood.InvalidSettings):
        sapwood.ingest_document("", tmp_path, run_id="r", node_id="n", settings=setting)


def test_a_project_that_is_no_path_is_refused() -> None:
    with pytest.raises(sapwood.WrongArgument, match="project_dir"):
        sapwood.ingest_document("", 7, run_id="r", node_id="n")  # type: ignore[arg-type]  # that is the mistake


def test_the_manifest_follows_its_published_schema(tmp_path: Path) -> None:
    import jsonschema

    schema = json.loads((Path(__file__).parents[2] / "docs/schema/ingest-manifest-v1.json").read_text())
    document = BLOCK + "```sh\n```\n```sh file=../x\n```\n```py file=q\n"
    manifest = sapwood.ingest_document(document, tmp_path, run_id="r", node_id="n")
    jsonschema.validate(manifest, schema)
    for broken in ({**manifest, "more": 1}, {**manifest, "version": "2"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)


def test_a_project_that_is_not_there_is_a_refusal_not_an_exception(tmp_path: Path) -> None:
    manifest = sapwood.ingest_document(BLOCK, tmp_path / "no", run_id="r", node_id="n")
    assert manifest["artifacts"][0]["reason"].startswith("workspace_root")


def test_the_example_in_the_document_runs(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/ingest.md").read_text()
    (example,) = [block.content for block in sapwood.parse_fences(text) if block.lang == "python"]
    exec(compile(example, "docs/ingest.md", "exec"), {"project": tmp_path})
    assert (tmp_path / "workspace/src/main.py").read_text() == "print('hello')\n"


def test_what_many_files_replace_is_synced_with_them_also_when_the_workspace_is_a_mount_of_its_own(
    tmp_path: Path,
) -> None:
    """What was there is kept below the project, which then is another file system than the workspace."""
    synced: list[set[int]] = []

    class Watched(Sync):
        def together(self, fds: Iterable[int]) -> None:
            synced.append({os.fstat(fd).st_ino for fd in fds})

    for text in ("old", "new"):
        synced.clear()
        document = "".join(f"```text file={number}.txt\n{text}\n```\n" for number in range(8))
        sync = Watched(os.fsync, os.fsync)
        done = ingest(document, Project(tmp_path, sync=sync), SOURCE, IngestSettings())
        assert done.manifest["summary"]["written"] == 8
    both = {tmp_path.stat().st_ino, (tmp_path / "workspace").stat().st_ino}
    assert synced == [both, both]


def test_a_leftover_that_cannot_be_removed_stops_nobody_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leftover = tmp_path / "workspace" / ".sapwood-dead-1.tmp"
    for path in (leftover, tmp_path / ".sapwood" / "pending" / "dead"):
        path.parent.mkdir(parents=True)
        path.touch()
    unlink = os.unlink

    def refuse(name: str, **more: int) -> None:
        if name == leftover.name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        unlink(name, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refuse)
        assert ingest(BLOCK, Project(tmp_path), SOURCE, IngestSettings()).manifest["summary"]["written"] == 1
    assert leftover.exists()
    assert ingest(BLOCK, Project(tmp_path), SOURCE, IngestSettings()).manifest["summary"]["skipped"] == 1
    assert not leftover.exists()
    assert list((tmp_path / ".sapwood" / "pending").iterdir()) == []
