"""Whatever is thrown at the pure public functions, they answer or refuse with a typed error."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sapwood
from sapwood.core import codec, event_artifacts, seal, tree
from sapwood.core.artifacts import Note
from sapwood.core.config import execution_config
from sapwood.core.keys import ArtifactKey, next_ulid
from sapwood.core.tokens import CHARS_4
from sapwood.errors import SapwoodError
from tests.conftest import Dose
from tests.core import values
from tests.core.trees import SmallRun

KEY = ArtifactKey("ak:01HQXK5V8RPZM4J3NHWGC7SDFG")
UPSTREAM = {
    "run_node_id": 1,
    "node_key": "a",
    "sequence_index": 0,
    "attempt": 1,
    "artifact_id": 1,
    "artifact_type": "report",
    "content_type": "text",
    "created_at": "2026-01-01T00:00:00.000Z",
    "content": "x",
    "distance": 1,
}
HANDOFF = {
    "artifacts": [sapwood.UpstreamArtifact(**UPSTREAM)],  # type: ignore[arg-type]
    "workflow_run_id": 7,
    "target_node_key": "pick",
    "policy": sapwood.HandoffPolicy(),
    "assembled_at": "2026-01-01T00:00:00.000Z",
}
PHASE = {
    "run_id": "r",
    "phase": 1,
    "goal": "",
    "epic_id": "",
    "verdicts": {},
    "artifacts_produced": (),
    "decisions_made": (),
    "open_risks": (),
    "narrative": "",
}
EVENT = {"type": "PauseEvent", "event_id": "e", "node_id": None, "timestamp": "2026-01-01T00:00:00Z", "message": ""}
WIRE = codec.to_dict(Note(KEY, text="x", content_type="text"))
MANIFEST = {"phase": 2, "handoff_fields": ("goal",), "narrative_cap": 10, "max_tokens": 10}

# What is called, and arguments that are fine.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "ArtifactKey": (sapwood.ArtifactKey, {"text": KEY.text}),
    "ArtifactKey.unpack": (sapwood.ArtifactKey.unpack, {"packed": KEY.pack()}),
    "ArtifactKey.child": (KEY.child, {"segment": KEY.last_segment}),
    "ArtifactKey.is_ancestor_of": (KEY.is_ancestor_of, {"other": KEY}),
    "KeyFactory.child": (sapwood.KeyFactory().child, {"parent": KEY}),
    "KeyFactory.root_at": (sapwood.KeyFactory().root_at, {"time_ms": 5}),
    "next_ulid": (next_ulid, {"last": 1, "now_ms": 1, "entropy": bytes(10)}),
    "TemplateId": (sapwood.TemplateId, {"text": "tpl.a.b"}),
    "canonical_json": (sapwood.canonical_json, {"value": {}}),
    "hash_json": (sapwood.hash_json, {"value": {}}),
    "hash_text": (sapwood.hash_text, {"text": ""}),
    "hash_bytes": (sapwood.hash_bytes, {"data": b""}),
    "UpstreamArtifact": (sapwood.UpstreamArtifact, UPSTREAM),
    "HandoffPolicy": (
        sapwood.HandoffPolicy,
        dict.fromkeys(inspect.signature(sapwood.HandoffPolicy).parameters, 5),
    ),
    "assemble_handoff": (sapwood.assemble_handoff, HANDOFF),
    "parse_envelope": (sapwood.parse_envelope, {"text": sapwood.assemble_handoff(**HANDOFF).entries[0]}),  # type: ignore[arg-type]
    "parse_extension": (sapwood.parse_extension, {"text": ""}),
    "render_provider_text": (sapwood.render_provider_text, {"prompt": "", "context": ("x",)}),
    "Contribution": (sapwood.Contribution, {"name": "n", "text": "t", "order": 1, "slot": "prompt"}),
    "estimate_tokens": (sapwood.estimate_tokens, {"text": "abc", "counter": CHARS_4}),
    "truncate_to_token_budget": (
        sapwood.truncate_to_token_budget,
        {"text": "abc. def", "budget": 1, "counter": CHARS_4},
    ),
    "apply_context_budget": (sapwood.apply_context_budget, {"text": "abc. def", "max_tokens": 1, "counter": CHARS_4}),
    "PhaseManifest": (sapwood.PhaseManifest, MANIFEST),
    "resolve_manifest": (sapwood.resolve_manifest, {"phase": 2, "overrides": {}}),
    "PhaseHandoff": (sapwood.PhaseHandoff, PHASE),
    "build_handoff_context": (
        sapwood.build_handoff_context,
        {"handoffs": [sapwood.PhaseHandoff(**PHASE)], "manifest": sapwood.PhaseManifest(**MANIFEST)},  # type: ignore[arg-type]
    ),
    "parse_fences": (sapwood.parse_fences, {"document": "```py file=a.py\n```\n"}),
    "IngestLimits": (sapwood.IngestLimits, dict.fromkeys(inspect.signature(sapwood.IngestLimits).parameters, 5)),
    "IngestSettings": (sapwood.IngestSettings, {"deny_names": (), "limits": {}, "on_error": "fail"}),
    "IngestSettings.of": (sapwood.IngestSettings.of, {"given": {}}),
    "IngestSettings.of fields": (lambda **fields: sapwood.IngestSettings.of(fields), {"limits": {}, "max_depth": 1}),
    "Template": (sapwood.Template, {"template_id": "tpl.a.b", "text": "{{ x }}", "variables": ["x"]}),
    "TemplateId.is_in_family": (sapwood.TemplateId("tpl.a.b").is_in_family, {"prefix": "tpl.a"}),
    "from_dict": (codec.from_dict, {"data": WIRE}),
    "from_dict of fields": (lambda **fields: codec.from_dict(fields), WIRE),
    "event_from_dict": (event_artifacts.event_from_dict, {"data": EVENT}),
    "event_from_dict of fields": (lambda **fields: event_artifacts.event_from_dict(fields), EVENT),
    "execution_config": (execution_config, {"key": KEY, "given": {}}),
    "execution_config of fields": (
        lambda **fields: execution_config(KEY, fields),
        {**dict.fromkeys(["models", "tools", "policies", "workflow", "new"]), "why_absent": {}},
    ),
    "Note": (Note, {"key": KEY, "text": "", "content_type": "text", "artifact_id": 1, "metadata": {}}),
    "to_record": (lambda **fields: codec.to_record(Note(KEY, content_type="text", **fields)), {"text": "", "metadata": {}}),
    "ArtifactTree": (tree.ArtifactTree, {"records": SmallRun().records}),
    "check_complete": (tree.check_complete, {"tree": tree.ArtifactTree(SmallRun().records)}),
    "ArtifactTree.walk": (tree.ArtifactTree(SmallRun().records).walk, {"under": KEY}),
    "ArtifactTree.find": (tree.ArtifactTree(SmallRun().records).find, {"key": KEY}),
    "ArtifactTree.add": (lambda **given: tree.ArtifactTree().add(**given), {"record": SmallRun().records[0]}),
    "ArtifactTree.children": (tree.ArtifactTree(SmallRun().records).children, {"key": KEY}),
    "ArtifactTree.shown_under": (tree.ArtifactTree(SmallRun().records).shown_under, {"key": KEY}),
    "is_included": (
        seal.is_included,
        {"leaf_hash": bytes(32), "index": 0, "size": 2, "proof": [bytes(32)], "head": bytes(32)},
    ),
    "prove_inclusion": (seal.prove_inclusion, {"leaf_hashes": [bytes(32)], "index": 0}),
}  # fmt: skip

leaves = (
    values.scalars
    | st.floats()
    | st.text(max_size=8)
    | st.text(st.characters(categories=["Cs", "Cc"]), min_size=1, max_size=3)
    | st.binary(max_size=40)
    | st.sampled_from([KEY, object, print, -1, 0, 2**64, KEY.text + "/", "tpl.a.b", "ak:", 1e400, range(2)])
)
junk = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.none() | st.integers() | st.text(max_size=3), inner, max_size=3)
        | st.builds(set, st.lists(st.integers(), max_size=2))
    ),
    max_leaves=5,
)


@pytest.mark.torture(short=60, full=10_000)
@pytest.mark.parametrize("name", CALLS)
def test_junk_is_answered_or_refused_with_a_typed_error(name: str, dose: Dose) -> None:
    call, fine = CALLS[name]
    call(**fine) if name != "parse_extension" else None

    @values.many(dose.count, dose.seed)
    @given(st.dictionaries(st.sampled_from(sorted(fine)), junk, min_size=1))
    def law(wrong: dict[str, Any]) -> None:
        with suppress(SapwoodError):
            call(**{**fine, **wrong})

    law()
