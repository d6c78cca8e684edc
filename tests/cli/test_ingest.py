"""`sapwood ingest` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import sapwood as api

DOCUMENT = "```python file=a.py\nprint(1)\n```\n```python file=bad.py\ndef\n```\n```sh file=../x\n```\n"


def sapwood(*words: str, folder: Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "sapwood", "ingest", *words]
    return subprocess.run(command, cwd=folder, input=given, capture_output=True, check=False)


def test_a_document_is_ingested_listed_and_undone(tmp_path: Path) -> None:
    (tmp_path / "undo").write_text(DOCUMENT)
    done = sapwood("./undo", "--project", ".", "--json", folder=tmp_path)
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["manifest"]["source"] == {"kind": "cli", "mode": "unknown", "doc_path": "undo"}
    assert answer["manifest"]["summary"] == {"total_blocks": 3, "written": 2, "skipped": 0, "rejected": 1}
    rows = json.loads(sapwood("log", "--json", folder=tmp_path).stdout)
    assert [row["workspace_path"] for row in rows] == ["workspace/a.py", "workspace/bad.py"]
    assert b"workspace/a.py" in sapwood("log", folder=tmp_path).stdout
    undone = sapwood("undo", answer["manifest_path"], folder=tmp_path)
    assert (undone.returncode, undone.stdout.count(b"removed")) == (0, 2)
    assert list((tmp_path / "workspace").iterdir()) == []
    assert b"(undone)" in sapwood("log", folder=tmp_path).stdout
    assert sapwood("undo", answer["manifest_path"], folder=tmp_path).returncode == 3


def test_a_dry_run_shows_a_diff_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "a.py").write_text("print(0)\n")
    done = sapwood("-", "--dry-run", folder=tmp_path, given=DOCUMENT.encode())
    assert done.returncode == 1
    for line in (b"-print(0)", b"+print(1)", b"+++ b/workspace/bad.py", b"traversal"):
        assert line in done.stdout
    assert [path.name for path in tmp_path.rglob("*")] == ["workspace", "a.py"]


def test_checks_run_after_writing_and_leave_no_cache(tmp_path: Path) -> None:
    done = sapwood("-", "--check", "--json", folder=tmp_path, given=DOCUMENT.encode())
    checks = json.loads(done.stdout)["checks"]
    assert [(check["path"], check["ok"]) for check in checks] == [("workspace/a.py", True), ("workspace/bad.py", False)]
    assert "def" not in checks[1]["words"]
    (saved,) = tmp_path.rglob("*.checks.json")
    assert json.loads(saved.read_bytes()) == {"checks": checks}
    assert list(tmp_path.rglob("*.pyc")) == []


def test_what_a_terminal_would_act_on_is_written_out(tmp_path: Path) -> None:
    document = "```text file=a\x1b[31mb\nx\x1b]0;evil\x07\n```\n```text file=ok\n\x1b[2J\n```\n"
    for words in (("-", "--dry-run"), ("-",)):
        done = sapwood(*words, folder=tmp_path, given=document.encode())
        assert b"\x1b" not in done.stdout + done.stderr
        assert b"control_char" in done.stdout


def test_bytes_that_are_no_text_are_refused_block_by_block(tmp_path: Path) -> None:
    document = b"```text file=a\n\xff\n```\n```text file=b\nfine\n```\n"
    answer = json.loads(sapwood("-", "--json", folder=tmp_path, given=document).stdout)
    assert [entry["reason"] for entry in answer["manifest"]["artifacts"]] == ["encoding", ""]


def test_a_document_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    assert sapwood("nothing.md", folder=tmp_path).returncode == 3


def test_a_closed_standard_input_is_one_line(tmp_path: Path) -> None:
    command = ["sh", "-c", f"{sys.executable} -m sapwood ingest - <&-"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "on standard input not found; it is closed; name a file" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_with_a_store_the_document_is_a_run_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "a.py").write_text("before\n")
    done = sapwood("-", "--check", "--json", "--store", "s.db", folder=tmp_path, given=DOCUMENT.encode())
    manifest = json.loads(done.stdout)["manifest"]
    with api.open(tmp_path / "s.db") as store:
        tree = store.load(manifest["run_id"])
        kinds = [artifact.kind for artifact in tree.walk()]
        assert store.verify(manifest["run_id"]).is_ok
    assert kinds.count("IngestManifest") == 1
    assert kinds.count("IngestedFile") == 3  # two written, one that was there before
    assert kinds.count("Log") == 1
    assert kinds.count("Seal") == 1


def test_on_error_fail_fails_the_run_after_all_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "sapwood.toml").write_text('[ingest]\non_error = "fail"\n')
    done = sapwood("-", "--json", "--store", "s.db", folder=tmp_path, given=DOCUMENT.encode())
    assert done.returncode == 4
    with api.open(tmp_path / "s.db") as store:
        (run,) = store.runs()
        kinds = [artifact.kind for artifact in store.load(run.key).walk()]
    assert run.status == "failed"
    assert kinds.count("IngestedFile") == 2


def test_a_file_that_is_no_manifest_does_not_stop_the_list(tmp_path: Path) -> None:
    sapwood("-", folder=tmp_path, given=DOCUMENT.encode())
    (manifest,) = (tmp_path / ".sapwood/ingest").glob("*/*.json")
    manifest.with_name("broken-1-1.json").write_text("{")
    manifest.with_name("other-1-1.json").write_text("[]")
    done = sapwood("log", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.count(b"written") == 2
    assert done.stderr.count(b"not a manifest") == 2
