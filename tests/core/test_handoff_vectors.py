"""Every case of the handoff vectors and of the envelope corpus gives the expected bytes."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import sapwood
from sapwood.core.contentflags import ContentFlags
from tests.core import handoff_cases

DATA = Path(__file__).resolve().parent.parent
VECTORS = json.loads((DATA / "vectors" / "handoff_v1.json").read_text("utf-8"))["cases"]
CORPUS = json.loads((DATA / "corpora" / "envelopes.json").read_text("utf-8"))["cases"]
NOW = "2026-02-03T04:05:06.789Z"


def artifact(**changes: Any) -> sapwood.UpstreamArtifact:
    values: dict[str, Any] = {
        "run_node_id": 7,
        "node_key": "brainstorm",
        "sequence_index": 0,
        "attempt": 1,
        "artifact_id": 42,
        "artifact_type": "report",
        "content_type": "markdown",
        "created_at": "2026-01-01T00:00:00.000Z",
        "content": "x",
    }
    return sapwood.UpstreamArtifact(**{**values, **changes})


def assemble(artifacts: list[sapwood.UpstreamArtifact], target: str = "pick", **changes: Any) -> sapwood.Handoff:
    options: dict[str, Any] = {"workflow_run_id": 1, "target_node_key": target, "assembled_at": NOW}
    return sapwood.assemble_handoff(artifacts, **{**options, **changes})


def of_corpus(case: dict[str, Any]) -> sapwood.Handoff:
    content = eval(case["content_gen"]) if "content_gen" in case else case["content"]  # our own file
    source = artifact(node_key=case["source_node_key"], content_type=case["content_type"], content=content)
    return assemble([source], case["target_node_key"])


def cases(**wanted: str) -> list[Any]:
    chosen = [case for case in CORPUS if all(case.get(name) == value for name, value in wanted.items())]
    return [pytest.param(case, id=case["id"]) for case in chosen]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in VECTORS])
def test_a_vector_gives_its_entries_and_manifest(case: dict[str, Any]) -> None:
    artifacts = [sapwood.UpstreamArtifact(**fields) for fields in case["artifacts"]]
    handoff = assemble(artifacts, case["target_node_key"], workflow_run_id=case["workflow_run_id"])
    assert list(handoff.entries) == case["entries"]
    assert {name: handoff.manifest[name] for name in case["manifest"]} == case["manifest"]


@pytest.mark.parametrize("case", cases(expect="accept"))
def test_an_accepted_content_gives_its_envelope_and_flags(case: dict[str, Any]) -> None:
    handoff = of_corpus(case)
    (entry,) = handoff.entries
    assert sha256(entry.encode()).hexdigest() == case["expect_envelope_sha256"]
    envelope = sapwood.parse_envelope(entry)
    for name in ("applied", "original_chars", "included_chars", "dropped_chars", "sha256"):
        assert getattr(envelope, name) == case[f"expect_{name}"], name
    assert [flag for flag in ContentFlags._fields if handoff.manifest[flag]] == case["expect_flags"]
    assert all(handoff.manifest[flag] == [42] for flag in case["expect_flags"])


@pytest.mark.parametrize("case", [*cases(expect="reject_key"), *cases(expect="reject_content")])
def test_a_refused_key_or_content_is_a_typed_error(case: dict[str, Any]) -> None:
    with pytest.raises(sapwood.SapwoodError):
        of_corpus(case)


@pytest.mark.parametrize("case", cases(expect="reject_key"))
def test_a_refused_key_is_refused_as_a_target_too(case: dict[str, Any]) -> None:
    with pytest.raises(sapwood.InvalidHandoff, match="target_node_key"):
        assemble([], case["source_node_key"])


JAVASCRIPT = json.loads(handoff_cases.EXPECTED.read_text())


@pytest.mark.parametrize("seed", range(handoff_cases.COUNT))
def test_javascript_gives_the_same_entries_and_manifest(seed: int) -> None:
    artifacts = [sapwood.UpstreamArtifact(**fields) for fields in handoff_cases.make_case(seed)]
    handoff = assemble(artifacts, workflow_run_id=7)
    assert [handoff_cases.entries_sha256(handoff.entries), handoff.manifest] == JAVASCRIPT[seed]


FIELD_CHANGES: dict[str, list[dict[str, Any]]] = {
    "ctype_html": [{"content_type": "html"}],
    "ctype_empty": [{"content_type": ""}],
    "ctype_upper": [{"content_type": "TEXT"}],
    "id_huge": [{"artifact_id": 2**63}, {"run_node_id": 2**63}, {"attempt": 2**63}],
    "id_float": [{"artifact_id": 1.0}, {"run_node_id": 1.0}, {"attempt": 1.0}, {"sequence_index": 1.0}],
    "id_bool": [{"artifact_id": True}, {"run_node_id": True}, {"attempt": True}, {"sequence_index": False}],
}


@pytest.mark.parametrize("case", cases(expect="reject_field"))
def test_a_refused_field_is_a_typed_error(case: dict[str, Any]) -> None:
    if case["id"] == "sha_upper":
        (entry,) = assemble([artifact()]).entries
        with pytest.raises(sapwood.InvalidEnvelope):
            sapwood.parse_envelope(entry.replace(sha256(b"x").hexdigest(), sha256(b"x").hexdigest().upper()))
        return
    for changes in FIELD_CHANGES[case["id"]]:
        with pytest.raises(sapwood.InvalidHandoff):
            artifact(**changes)


@pytest.mark.parametrize("case", cases(expect="budget"))
def test_a_budget_case_places_and_drops_what_it_says(case: dict[str, Any]) -> None:
    reports = [
        artifact(run_node_id=place + 1, artifact_id=place + 1, sequence_index=place, content="a" * length)
        for place, length in enumerate(case["lengths"])
    ]
    manifest = assemble(reports).manifest
    included = {entry["artifact_id"]: entry["included_chars"] for entry in manifest["entries"]}
    assert [included.get(place + 1) for place in range(len(reports))] == case["expect_included"]
    assert manifest["included_chars_total"] == case["expect_total"]
    assert manifest["dropped_artifact_ids"] == [
        place + 1 for place, chars in enumerate(case["expect_included"]) if chars is None
    ]
    assert manifest["budget_overflow"] is True
