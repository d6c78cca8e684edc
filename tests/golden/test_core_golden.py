"""The formats, byte for byte. A change here is a change of a format: it needs a new version, not a new file.

`SAPWOOD_WRITE_GOLDEN=1` writes what is missing and the schema; nothing else ever rewrites a golden file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sapwood.core.agent_context import SHOWN
from sapwood.core.artifacts import AgentRequest, AgentRequests, AgentResult, PreviousTry
from sapwood.core.canonical import canonical_json
from sapwood.core.codec import to_dict
from sapwood.core.hashing import hash_bytes, hash_json, hash_text
from sapwood.core.keys import ArtifactKey
from sapwood.core.schema import artifact_schema, event_schema
from sapwood.core.seal import hash_leaf, leaf_bytes
from tests.core.trees import SmallRun, fixed_keys

HERE = Path(__file__).parent
SCHEMAS = HERE.parent.parent / "docs" / "schema"
IS_WRITING = os.environ.get("SAPWOOD_WRITE_GOLDEN") == "1"
KEY = ArtifactKey("ak:01HQXK5V8RPZM4J3NHWGC7SDFG/01HQXK5V9KPZM4J3NHWGC7SDXY")


def is_golden(path: Path, made: str, *, may_rewrite: bool = False) -> bool:
    if IS_WRITING and (may_rewrite or not path.exists()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.encode())
    return path.read_bytes() == made.encode()


def pretty(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def test_keys() -> None:
    keys = fixed_keys()
    root = keys.root()
    made = [root, keys.child(root), keys.child(keys.child(root)), keys.root_at(0), keys.root_at(2**48 - 1)]
    assert is_golden(HERE / "keys.json", pretty([{"key": key.text, "packed": key.pack().hex()} for key in made]))


VALUES: list[Any] = [
    None,
    {"zebra": 1, "apple": 2, "nested": {"b": True, "a": False}},
    {"\U0001f600": 1, "\uffee": 2, "é": 3, "": 4},
    [1.0, -0.0, 1e7, 1e20, 1e21, 1.5e-7, 1e-6, 0.1, 5e-324, 1.7976931348623157e308, 2**100, -(2**70)],
    'quote " backslash \\ slash / controls \x00\b\t\n\f\r\x1f\x7f line separator \u2028',
    {"absent is absent": [], "null": None},
]


def test_canonical_json_and_its_hashes() -> None:
    made = "".join(f"{hash_json(value)} {canonical_json(value).decode()}\n" for value in VALUES)
    assert is_golden(HERE / "canonical.txt", made)


def test_hashes() -> None:
    made = {
        "text": hash_text("You are a helpful assistant."),
        "empty text": hash_text(""),
        "bytes 00..ff": hash_bytes(bytes(range(256))),
        "json": hash_json({"a": [1, "é", None]}),
    }
    assert is_golden(HERE / "hashes.json", pretty(made))


CONTEXTS = {
    "AgentRequest": AgentRequest(
        KEY,
        node="review",
        attempt=2,
        goal="Ship the feature",
        request={"topic": "keys"},
        previous_context=(PreviousTry(key=KEY.root, status="failed", error="overloaded", result=KEY),),
        question="Ship it?",
        options=("yes", "no"),
        state={"tests": "green"},
        visit=1,
        try_=2,
    ),
    "AgentRequests": AgentRequests(
        KEY, node="research", goal="Look everywhere", names=("a", "b"), items=[1, {"name": "b"}]
    ),
    "AgentResult": AgentResult(
        KEY,
        status="completed",
        decision="approve",
        result={"answer": 42},
        error=None,
        goal="Ship the feature",
        outcome="shipped",
        evidence=(KEY, KEY.root),
        changed_files=("a.py", "b.py"),
        verdicts={"gate": "pass"},
        risks=("none known",),
    ),
}


@pytest.mark.parametrize("reader", SHOWN)
@pytest.mark.parametrize("kind", CONTEXTS)
def test_the_five_serializations(kind: str, reader: Any) -> None:
    assert is_golden(HERE / "contexts" / f"{kind}.{reader}.txt", CONTEXTS[kind].serialize(for_=reader))


def test_the_seal_of_a_small_tree() -> None:
    run = SmallRun()
    leaves = [{"leaf": leaf_bytes(record).decode(), "hash": hash_leaf(record).hex()} for record in run.unsealed]
    made = {"leaves": leaves, "seal": to_dict(run.seal)}
    assert is_golden(HERE / "seal.json", pretty(made))


def test_the_wire_form_of_a_small_tree() -> None:
    assert is_golden(
        HERE / "run.jsonl", "".join(canonical_json(to_dict(r)).decode() + "\n" for r in SmallRun().records)
    )


def test_the_schema_files_are_current() -> None:
    assert is_golden(SCHEMAS / "artifact.json", pretty(artifact_schema()), may_rewrite=True)
    assert is_golden(SCHEMAS / "event.json", pretty(event_schema()), may_rewrite=True)
