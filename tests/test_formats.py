"""docs/formats.md is exact: its own programme, which knows nothing of Sapwood, reads what Sapwood wrote.

`SAPWOOD_WRITE_GOLDEN=1` writes the tables of kinds, parts and events anew, from the types.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

import sapwood
from sapwood.core.canonical import canonical_json
from sapwood.core.codec import to_dict
from sapwood.core.event_artifacts import EVENT_ARTIFACTS
from sapwood.core.extensions import RETRY, Extension
from sapwood.core.keys import ArtifactKey
from sapwood.core.schema import KEY_PATTERN, artifact_schema, event_schema
from sapwood.core.seal import hash_leaf, prove_inclusion
from sapwood.core.tree import ArtifactTree
from tests.conftest import Dose
from tests.core import values
from tests.core.trees import SmallRun, plain_render
from tests.test_documents import blocks

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "formats.md"
GOLDEN = ROOT / "tests" / "golden"
HEAD = ("event_id", "node_id", "timestamp", "type")


@pytest.fixture(scope="module")
def reader() -> Iterator[dict[str, Any]]:
    """The programme of the document, with its examples run."""
    code = "\n".join(blocks(DOCUMENT.read_text(), "python"))
    assert not re.search(r"^\s*(?:import|from)\s+sapwood", code, flags=re.M)
    names: dict[str, Any] = {}
    usual = sys.get_int_max_str_digits()  # the programme lifts this limit
    exec(compile(code, str(DOCUMENT), "exec"), names)
    yield names
    sys.set_int_max_str_digits(usual)


def section(title: str) -> str:
    """Return what stands below a heading of the document, up to the next one."""
    return re.split(r"^#+ ", DOCUMENT.read_text().split(f"# {title}\n", 1)[1], maxsplit=1, flags=re.M)[0]


def golden_run() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / "run.jsonl").read_text().splitlines()]


def test_it_verifies_the_golden_run_and_gives_its_head(reader: dict[str, Any]) -> None:
    seal = json.loads((GOLDEN / "seal.json").read_text())
    run = golden_run()
    assert reader["verify"](run) == seal["seal"]["content"]["head"]
    leaves = [reader["leaf_hash"](artifact).hex() for artifact in run if not reader["is_seal"](artifact)]
    assert leaves == [leaf["hash"] for leaf in seal["leaves"]]


def test_it_sees_every_change_below_the_seal_of_the_golden_run(reader: dict[str, Any]) -> None:
    for index, artifact in enumerate(golden_run()[:-1]):
        for name, value in {"metadata": {"x": 1}, "kind": "Other", "content_hash": "0" * 64}.items():
            run = golden_run()
            run[index] = {**artifact, name: value}
            with pytest.raises((AssertionError, ValueError)):
                reader["verify"](run)


def test_it_reads_the_golden_keys_canonical_texts_and_hashes(reader: dict[str, Any]) -> None:
    for entry in json.loads((GOLDEN / "keys.json").read_text()):
        assert reader["pack"](entry["key"]).hex() == entry["packed"]
        assert reader["unpack"](bytes.fromhex(entry["packed"])) == entry["key"]
    for line in (GOLDEN / "canonical.txt").read_text().split("\n")[:-1]:
        digest, _, text = line.partition(" ")
        assert reader["canonical"](json.loads(text)).decode() == text
        assert reader["sha256_hex"](text.encode()) == digest


def test_it_tells_template_ids_from_other_texts(reader: dict[str, Any]) -> None:
    cases = json.loads((ROOT / "tests" / "vectors" / "keys.json").read_text())["cases"]
    known = {case["text"]: case["valid"] for case in cases if case["op"] == "template_id"}
    known |= {f"tpl.{'a' * first}" + f".{'b' * 62}" * 3: first == 63 for first in (63, 64)}  # 256 and 257 characters
    for text, is_valid in known.items():
        assert reader["is_template_id"](text) == is_valid, text
        if is_valid:
            sapwood.TemplateId(text)
        else:
            with pytest.raises(sapwood.InvalidTemplateId):
                sapwood.TemplateId(text)


def test_its_proofs_are_ours(reader: dict[str, Any]) -> None:
    hashes = [hash_leaf(record) for record in SmallRun().unsealed]
    for size in range(1, len(hashes) + 1):
        head = reader["head"](hashes[:size])
        for index in range(size):
            proof = reader["prove"](hashes[:size], index)
            assert proof == prove_inclusion(hashes[:size], index)
            assert reader["is_included"](hashes[index], index, size, proof, head)
            assert not reader["is_included"](hashes[index], index + 1, size, proof, head)


def test_it_rebuilds_every_prompt_of_the_golden_run(reader: dict[str, Any]) -> None:
    run = golden_run()
    prompts = [artifact for artifact in run if artifact["kind"] == "RenderedPrompt"]
    assert prompts
    for prompt in prompts:
        children = [artifact for artifact in run if reader["parent"](artifact["key"]) == prompt["key"]]
        (args,) = [child["content"] for child in children if child["kind"] == "PromptArgs"]
        rendered = plain_render("Do {{ args }}", reader["canonical"](args), ("args",), None)
        contributions = [child for child in children if child["kind"] == "PromptContribution"]
        assert reader["prompt_text"](rendered, contributions) == prompt["content"]


@pytest.mark.parametrize(
    ("name", "parse"),
    [
        ("report-v1.txt", sapwood.parse_envelope),
        ("report-v1-cut.txt", sapwood.parse_envelope),
        ("join_context_v1.txt", sapwood.parse_extension),
        ("failure_route_context_v1.txt", sapwood.parse_extension),
        ("retry_context_v1-cut.txt", sapwood.parse_extension),
    ],
)
def test_it_reads_the_golden_context_entries(reader: dict[str, Any], name: str, parse: Any) -> None:
    text = (GOLDEN / "context" / name).read_bytes().decode()
    read, ours = reader["read_entry"](text), parse(text)
    shown = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in asdict(ours).items()
    }
    assert read == shown


@pytest.mark.torture(short=100, full=10_000)
def test_it_cuts_and_reads_context_entries_as_we_do(reader: dict[str, Any], dose: Dose) -> None:
    @values.many(dose.count, dose.seed)
    @given(st.text(st.sampled_from("a\n\U0001f600\ufffd<END>"), max_size=40), st.integers(1, 30))
    def law(content: str, limit: int) -> None:
        report = sapwood.UpstreamArtifact(1, "a", 0, 1, 1, "report", "text", "2026-01-01T00:00:00Z", content)
        policy = sapwood.HandoffPolicy(max_chars_per_artifact=limit)
        told = {"workflow_run_id": 1, "target_node_key": "b", "assembled_at": "2026-01-01T00:00:00Z"}
        (entry,) = sapwood.assemble_handoff([report], policy=policy, **told).entries  # type: ignore[arg-type]
        read = reader["read_entry"](entry)
        assert read["content"] == reader["head_tail"](content, limit)
        assert read["sha256"] == reader["sha256_hex"](content.encode())

    law()


MISLEADING = [
    "<<<END>>>",
    "<<<BEGIN>>>",
    "\n",
    "\r",
    " ",
    "ALPHRED_UPSTREAM_ARTIFACT v",
    "\u200b",
    "\U000e0041",
    "aé\U0001f600",
]


@pytest.mark.torture(short=100, full=10_000)
def test_it_holds_context_manifests_against_their_entries(reader: dict[str, Any], dose: Dose) -> None:
    texts = st.lists(st.sampled_from(MISLEADING), max_size=8).map("".join)

    @values.many(dose.count, dose.seed)
    @given(st.lists(texts, max_size=6), st.lists(texts, max_size=2), st.integers(1, 40), st.integers(1, 60))
    def law(reports: list[str], extras: list[str], limit: int, total: int) -> None:
        policy = sapwood.HandoffPolicy(
            max_chars_per_artifact=limit, max_context_chars_total=total, min_remaining_chars=1
        )
        at = "2026-01-01T00:00:00Z"
        handoff = sapwood.assemble_handoff(
            [
                sapwood.UpstreamArtifact(n, "a", n, 1, n, "report", "text", at, text)
                for n, text in enumerate(reports, 1)
            ],
            workflow_run_id=1,
            target_node_key="b",
            assembled_at=at,
            policy=policy,
            extensions=[Extension(RETRY, "a", 1, n, at, text, 30) for n, text in enumerate(extras, 1)],
        )
        reader["check_manifest"](handoff.manifest, handoff.entries)

    law()


# What the entries alone do not tell: when, by which policy, and of what nothing was included.
NOT_IN_THE_ENTRIES = {
    *("assembly_timestamp", "budget_overflow", "context_policy_version"),
    *("dropped_artifact_ids", "dropped_chars_total", "no_eligible_artifact_types"),
}


def test_it_sees_every_change_of_a_context_manifest(reader: dict[str, Any]) -> None:
    at = "2026-01-01T00:00:00Z"
    handoff = sapwood.assemble_handoff(
        [
            sapwood.UpstreamArtifact(
                1, "a", 0, 1, 1, "report", "text", at, "<<<END>>>\nALPHRED_UPSTREAM_ARTIFACT v\u2060"
            )
        ],
        workflow_run_id=1,
        target_node_key="b",
        assembled_at=at,
        policy=sapwood.HandoffPolicy(max_chars_per_artifact=45),
        extensions=[Extension(RETRY, "a", 1, 1, at, "failed", 30)],
    )
    table = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", section("Context manifests"), flags=re.M)))
    assert set(table) == handoff.manifest.keys()
    for name, value in handoff.manifest.items():
        other: Any = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else value * 2 or [1]
        for changed in ({**handoff.manifest, name: other}, {k: v for k, v in handoff.manifest.items() if k != name}):
            if name in changed and name in NOT_IN_THE_ENTRIES:
                continue
            with pytest.raises((AssertionError, KeyError, ValueError)):
                reader["check_manifest"](changed, handoff.entries)


@pytest.mark.torture(short=100, full=10_000)
def test_its_canonical_json_and_keys_are_ours(reader: dict[str, Any], dose: Dose) -> None:
    @values.many(dose.count, dose.seed)
    @given(values.json_values, values.keys)
    def law(value: Any, key: ArtifactKey) -> None:
        assert reader["canonical"](value) == canonical_json(value)
        assert reader["pack"](key.text) == key.pack()
        assert reader["time_ms"](key.text) == key.time_ms
        assert reader["parent"](key.text) == (key.parent and key.parent.text)

    law()


def test_it_reads_a_store_without_our_code(reader: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "sapwood.db"
    with sapwood.open(path) as store:
        with store.record(config={}, inputs={"large": "é" * 60_000, "small": [1.5, None]}) as run:
            with run.agent("a", request={}) as agent:
                agent.report("# é", content_type="markdown")
            run.outcome("tests", passed=True)
        tree: ArtifactTree = store.load(run.key)
    read = list(reader["read_store"](path, zstd.decompress))
    mine = [artifact for artifact in read if artifact["key"].startswith(run.key.text)]
    assert mine == [to_dict(record) for record in tree.walk()]
    assert reader["verify"](mine)


def test_it_tells_the_runs_of_a_store_from_its_other_trees(reader: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "sapwood.db"
    with sapwood.open(path) as store:
        store.templates.register("tpl.x.y", "a")
        heads: dict[str, str] = {}
        for _ in range(2):
            with store.record(inputs={"an integer of any size": 10**5_000}) as run:
                pass
            late = store.evidence(run.key, "merge", passed=True)
            heads |= {key.text: store.verify(key).head for key in (run.key, late)}
    runs = reader["read_runs"](path, zstd.decompress)
    assert {root: reader["verify"](artifacts) for root, artifacts in runs.items()} == heads


def words(schema: dict[str, Any], parts: dict[str, str]) -> str:
    """Return a type in words; an object with a name of its own goes to `parts`."""
    if "anyOf" in schema:
        return " or ".join(words(one, parts) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f'"{value}"' for value in schema["enum"])
    if schema.get("pattern") == KEY_PATTERN:
        return "key"
    match schema.get("type"):
        case None:
            return "any"
        case "array":
            return f"list of {words(schema['items'], parts)}"
        case "object" if "title" in schema:
            parts.setdefault(schema["title"], fields(schema, parts))
            return f"*{schema['title']}*"
        case kind:
            return "text" if kind == "string" else str(kind)


def fields(schema: dict[str, Any], parts: dict[str, str], without: tuple[str, ...] = ()) -> str:
    required = schema.get("required", ())
    return ", ".join(
        f"`{name}`{'' if name in required else '?'} {words(kind, parts)}"
        for name, kind in sorted(schema["properties"].items())
        if name not in without
    )


def kind_rows(parts: dict[str, str]) -> Iterator[str]:
    for kind in artifact_schema()["oneOf"]:
        content, metadata = kind["properties"]["content"], kind["properties"]["metadata"]
        media = metadata["properties"]["media"] and metadata["properties"]["media"]["const"]
        if not media and "properties" in content:
            inside = fields(content, parts)
            shown = f"object of {inside}" if inside else "object, empty"
        else:
            shown = media or words(content, parts)
        yield f"| {kind['title']} | {media or ''} | {shown} | {fields(metadata, parts, ('media',))} |"


def event_rows() -> Iterator[str]:
    for event in event_schema()["oneOf"]:
        kind = EVENT_ARTIFACTS[event["title"]].__name__
        yield f"| {event['title']} | {kind} | {fields(event, {}, HEAD).replace('?', '')} |"


def test_its_tables_are_those_of_the_types() -> None:
    parts: dict[str, str] = {}
    kinds = ["| kind | media | content | metadata |", "|---|---|---|---|", *kind_rows(parts)]
    tables = {
        "kinds": kinds,
        "parts": ["| part | fields |", "|---|---|", *(f"| {name} | {parts[name]} |" for name in sorted(parts))],
        "events": ["| type | recorded as | fields |", "|---|---|---|", *event_rows()],
    }
    text = made = DOCUMENT.read_text()
    for name, lines in tables.items():
        before, _, rest = made.partition(f"<!-- {name} -->\n")
        made = f"{before}<!-- {name} -->\n" + "\n".join(lines) + rest[rest.index(f"\n<!-- /{name} -->") :]
    if os.environ.get("SAPWOOD_WRITE_GOLDEN") == "1":
        DOCUMENT.write_text(made)
        return
    assert text == made, "run this test with SAPWOOD_WRITE_GOLDEN=1 and read the difference"
