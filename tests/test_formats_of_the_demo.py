"""The programme of docs/formats.md reads all that a real workflow run left: the store that `sapwood demo` keeps."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
from backports import zstd

import sapwood
from tests.test_formats import ROOT, reader, section

__all__ = ["reader"]  # the fixture

Wire = dict[str, Any]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Wire:
    """What the demo prints; `store` is the file it kept."""
    folder = tmp_path_factory.mktemp("demo") / "kept"
    command = [sys.executable, "-m", "sapwood", "demo", "--keep", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {**json.loads(done.stdout), "store": folder / ".sapwood" / "sapwood.db"}


@pytest.fixture(scope="module")
def stored(reader: dict[str, Any], said: Wire) -> dict[str, Wire]:
    """Every artifact of the store, by its key."""
    return {one["key"]: one for one in reader["read_store"](said["store"], zstd.decompress)}


@pytest.fixture(scope="module")
def run(stored: dict[str, Wire], said: Wire) -> list[Wire]:
    return [one for key, one in stored.items() if key.startswith(said["run"])]


def below(run: list[Wire], above: Wire, kind: str) -> list[Wire]:
    return [one for one in run if one["kind"] == kind and one["key"].startswith(above["key"] + "/")]


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((ROOT / "docs" / "schema" / name).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_it_finds_the_head_that_the_demo_printed(reader: dict[str, Any], said: Wire, run: list[Wire]) -> None:
    assert reader["verify"](run) == said["head"]
    assert len(run) == said["artifacts"]


def test_every_artifact_and_event_fits_the_published_schemas(run: list[Wire], stored: dict[str, Wire]) -> None:
    artifact, event, ingest = (validator(f"{name}.json") for name in ("artifact", "event", "ingest-manifest-v1"))
    for one in stored.values():
        artifact.validate(one)
        assert not artifact.is_valid({**one, "content": 0}) or one["kind"] in ("ToolInput", "ToolOutput")
    for one in run:
        if one["kind"] in ("EventArtifact", "MessageStreamArtifact"):
            head = {name: value for name, value in one["content"].items() if name != "payload"}
            event.validate({**one["content"]["payload"], **head})
            assert not event.is_valid({**one["content"]["payload"], **head, "timestamp": "yesterday"})
        if one["kind"] == "IngestManifest":
            ingest.validate(one["content"])


def test_every_artifact_stands_where_the_document_says(
    reader: dict[str, Any], run: list[Wire], stored: dict[str, Wire]
) -> None:
    rows = re.findall(r"^\| (\w+) \| (.+) \|$", section("Places"), flags=re.M)
    places = {under: set(re.findall(r"[A-Z]\w+", kinds)) for under, kinds in rows}
    places["AgentRequest"] |= places["Delivery"]
    assert set().union(*places.values()) | {"Execution", "PromptTemplate", "DbRef"} == {
        entry["title"] for entry in validator("artifact.json").schema["oneOf"]
    }
    for one in run[1:]:
        above = stored[reader["parent"](one["key"])]
        assert one["kind"] in places[above["kind"]], (above["kind"], one["kind"])
    for request in (one for one in run if one["kind"] == "AgentRequest"):
        ended = [
            one for one in below(run, request, "AgentResult") if one["key"].count("/") == request["key"].count("/") + 2
        ]
        assert len(ended) == 1


def test_every_prompt_is_rebuilt_from_its_children(
    reader: dict[str, Any], run: list[Wire], stored: dict[str, Wire]
) -> None:
    prompts = [one for one in run if one["kind"] == "RenderedPrompt"]
    assert {one["metadata"]["part"] for one in prompts} == {"system", "user"}
    for prompt in prompts:
        ((reference,), (args,)) = (below(run, prompt, kind) for kind in ("RefArtifact", "PromptArgs"))
        template = stored[reference["content"]["target"]]
        assert reference["content"]["target_hash"] == template["content_hash"]
        assert reader["is_template_id"](template["metadata"]["template_id"])
        assert reader["time_ms"](template["key"]) == template["metadata"]["last_updated_ms"]
        variables = template["metadata"]["variables"]
        rendered = sapwood.render_template(template["content"], args["content"], variables=variables, trusted=True)
        assert reader["prompt_text"](rendered, below(run, prompt, "PromptContribution")) == prompt["content"]


def test_every_context_manifest_is_that_of_its_entries(reader: dict[str, Any], run: list[Wire]) -> None:
    cut = 0
    for delivery in (one for one in run if one["kind"] == "Delivery" and below(run, one, "RenderedPrompt")):
        (report,) = below(run, delivery, "Report") or below(run, delivery, "Log")
        entries = [one for one in below(run, delivery, "PromptContribution") if one["metadata"]["slot"] == "context"]
        manifest = report["metadata"]["context_manifest"]
        reader["check_manifest"](manifest, [one["content"] for one in entries])
        cut += len(manifest["truncated_artifact_ids"])
    assert cut
