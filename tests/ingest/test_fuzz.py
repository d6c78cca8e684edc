"""Random documents: no exception, every block accounted for, and the disk as the manifest says."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import pytest

from sapwood.core.fences import parse_fences
from sapwood.core.ingest_manifest import Source, build_manifest
from sapwood.core.ingest_settings import IngestSettings
from sapwood.core.verdicts import judge
from sapwood.ingest import ingest as module
from sapwood.ingest.workspace import Project
from tests.conftest import Dose
from tests.ingest.test_race import NO_SYNC

SOURCE = Source("run", "node", "graph_runtime", "unknown", "docs/x.md")
SETTINGS = IngestSettings()
ON_DISK_EVERY = 20
WORDS = (
    "```", "```", "```", "````", "~~~", " ", "  ", "\n", "\n", "\n", "\r\n", "\r", "\t", "python", "sh", "c++", "file=", "file=a",
    "file=a/b.py", "file=A", "file=../x", "file=a/", "file=.git", "file=é", "file=CON", "file=~/x", " file=b", "mode=1", "'", '"',
    "x", "prose", "\u2028", "\u200b", "\x00", "\x1b", "\ud800", "\ufeff", "<<<BEGIN>>>", "<<<END>>>", "ALPHRED_UPSTREAM_ARTIFACT v1",
    "```text file=a\none\n```\n", "```text file=d/e\ntwo\n```\n", "```py file=", "> ", "- ",
)  # fmt: skip


def document(rng: random.Random) -> str:
    return "".join(rng.choices(WORDS, k=rng.randrange(40)))


def mistakes(manifest: dict[str, Any], project: Path | None) -> list[str]:
    entries, summary = manifest["artifacts"], manifest["summary"]
    found = []
    if not summary["total_blocks"] == len(entries) == summary["written"] + summary["skipped"] + summary["rejected"]:
        found.append(f"sums: {summary}")
    if [entry["index"] for entry in entries] != list(range(len(entries))):
        found.append("indexes")
    for entry in entries:
        if (entry["status"] == "written") != (entry["reason"] == ""):
            found.append(f"reason of {entry}")
        if project is not None and entry["status"] == "written":
            content = (project / entry["workspace_path"]).read_bytes()
            if hashlib.sha256(content).hexdigest() != entry["sha256"]:
                found.append(f"content of {entry}")
    return found


@pytest.mark.torture(short=6_000, full=1_000_000)
def test_any_document_is_accounted_for(dose: Dose, tmp_path: Path) -> None:
    for number in range(dose.count):
        text = document(dose.rng)
        try:
            if number % ON_DISK_EVERY:
                manifest = build_manifest(SOURCE, judge(parse_fences(text), SETTINGS), "2026-01-01T00:00:00Z")
                found = mistakes(manifest, None)
            else:
                project = tmp_path / str(
                    number // (ON_DISK_EVERY * 200)
                )  # a new project now and then keeps folders small
                project.mkdir(exist_ok=True)
                manifest = module.ingest(
                    text, Project(project, sync=NO_SYNC), SOURCE, SETTINGS, attempt=number
                ).manifest
                found = mistakes(manifest, project)
        except Exception as error:
            found = [repr(error)]
        dose.failures += [f"{mistake} in {text!r}" for mistake in found]


@pytest.mark.mutant
def test_a_block_that_is_dropped_is_found_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def dropping(blocks: Any, settings: IngestSettings) -> list[Any]:
        return judge(blocks, settings)[1:]

    monkeypatch.setattr(module, "judge", dropping)
    done = module.ingest("```a\n```\n```b\n```\n", Project(tmp_path, sync=NO_SYNC), SOURCE, SETTINGS)
    assert mistakes(done.manifest, tmp_path) == ["indexes"]
