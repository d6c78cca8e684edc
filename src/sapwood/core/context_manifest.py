"""The shape of a stored context manifest: what a reader of records may rely on, whoever wrote them."""

from __future__ import annotations

from typing import Any

import msgspec

from sapwood.errors import InvalidArtifact


class _Entry(msgspec.Struct):
    artifact_id: int
    run_node_id: int
    original_chars: int
    included_chars: int
    dropped_chars: int


class _Manifest(msgspec.Struct):
    context_policy_version: int
    included_artifact_ids: list[int]
    included_source_node_keys: list[str]
    included_source_run_node_ids: list[int]
    included_sha256: list[str]
    included_count: int
    included_chars_total: int
    entries: list[_Entry]
    truncated_artifact_ids: list[int]
    dropped_artifact_ids: list[int]
    dropped_chars_total: int
    budget_overflow: bool
    missing_upstream_artifacts: bool
    no_eligible_artifact_types: bool
    delimiter_in_content: list[int]
    envelope_in_content: list[int]
    invisible_chars: list[int]
    extensions: list[dict[str, Any]]
    assembly_timestamp: str

    def __post_init__(self) -> None:
        if not len(self.entries) == len(self.included_source_node_keys) == len(self.included_artifact_ids):
            raise ValueError("its lists differ in length")


def check_manifest(manifest: object, where: str) -> dict[str, Any]:
    """Return the manifest as it is when it has the stable shape; raise InvalidArtifact that names what is wrong."""
    try:
        msgspec.convert(manifest, _Manifest)
    except msgspec.ValidationError as error:
        raise InvalidArtifact(where, f"no context manifest: {error}") from None
    assert isinstance(manifest, dict)
    return manifest
