"""Every case of the path corpus: verdict, reason, content, and the corpus's own invariants, with both ways to open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sapwood.core.ingest_manifest import Source
from sapwood.core.ingest_settings import IngestSettings
from sapwood.ingest.ingest import ingest
from tests.ingest.corpus import CASES, IN_CHILD, Scene, broken_invariants, expand, ingest_in_child, project_of

SOURCE = Source("run", "node", "graph_runtime", "unknown", "docs/x.md")
STILL = [case for case in CASES if case["verdict"] != "never_outside"]
ON_DISK = [case for case in STILL if case["cls"] in "HIM"]


def check(case: dict[str, Any], folder: Path, way: str) -> None:
    scene = Scene.build(folder)
    out_before = scene.tree_hash()
    needs_child = any(row[0] in IN_CHILD for row in case.get("setup", []))
    if needs_child:
        manifest = ingest_in_child(scene, case, way)
    else:
        for row in case.get("setup", []):
            scene.set_up(row)
        out_before = scene.tree_hash()
        settings = IngestSettings.of(case.get("limits"))
        manifest = ingest(expand(case["doc"]), project_of(scene, way), SOURCE, settings).manifest
    assert wrong_verdicts(case, manifest, scene) == []
    if not any(row[0] == "rlimit_nofile" for row in case.get("setup", [])):
        assert broken_invariants(scene, manifest, out_before, is_mounted=needs_child) == []


def wrong_verdicts(case: dict[str, Any], manifest: dict[str, Any], scene: Scene) -> list[str]:
    entries = manifest["artifacts"]
    seen = [(entry["status"], entry["reason"].split(":")[0]) for entry in entries]
    match case["verdict"]:
        case "none":
            wrong = [] if not entries else [f"blocks: {seen}"]
        case "mixed" if case["reason"]:
            wrong = [] if case["reason"] in {reason for _, reason in seen} else [f"{seen}"]
        case "mixed":
            wrong = [] if len(set(seen)) > 1 else [f"{seen}"]
        case verdict:
            wrong = [] if set(seen) == {(verdict, case["reason"])} else [f"{seen}"]
    expectations = case.get("expect", [])
    if expectations and len(expectations) != len(entries):
        wrong.append(f"{len(entries)} blocks, not {len(expectations)}")
    for entry, expected in zip(entries, expectations, strict=False):
        status = expected.get("status", case["verdict"])
        if (entry["status"], entry["reason"]) != (status, expected.get("reason", "")):
            wrong.append(f"{entry} is not {expected}")
        if "workspace_path" in expected and entry["workspace_path"] != expected["workspace_path"]:
            wrong.append(f"{entry['workspace_path']} is not {expected['workspace_path']}")
        if "content" in expected and status == "written":
            content = (scene.project / entry["workspace_path"]).read_bytes()
            if content != expected["content"].encode():
                wrong.append(f"{content!r} is not {expected['content']!r}")
    return wrong


@pytest.mark.parametrize("case", STILL, ids=lambda case: str(case["id"]))
def test_the_corpus_case_gives_its_verdict(case: dict[str, Any], tmp_path: Path) -> None:
    check(case, tmp_path, "openat2")


@pytest.mark.parametrize("case", ON_DISK, ids=lambda case: str(case["id"]))
def test_the_walk_without_openat2_gives_the_same_verdict(case: dict[str, Any], tmp_path: Path) -> None:
    check(case, tmp_path, "nofollow")
