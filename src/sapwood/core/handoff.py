"""Handoff policy v1: the artifacts of a node's selected direct predecessors -> its context entries and their manifest.

Filter (the latest report of each run node), order, cap each artifact, then all together; nothing is cut or dropped
without the manifest saying so. Equal artifacts and policy give equal bytes, in whatever order the artifacts come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Any, Final, NamedTuple

from sapwood.core.contentflags import CLEAN, ContentFlags, find_flags
from sapwood.core.envelope import CONTENT_TYPES, write_envelope
from sapwood.core.expect import expect, expect_each
from sapwood.core.extensions import Extension, cut_extension, write_extension
from sapwood.core.instants import find_instant
from sapwood.core.integers import MAX_ID, is_id, is_integer
from sapwood.core.lengths import Cut, encode_counted, head_tail
from sapwood.core.nodekey import NODE_KEY, is_node_key
from sapwood.errors import InvalidHandoff

POLICY_VERSION: Final = 1
ARTIFACT_TYPES: Final = ("report", "note", "log")

_ID = "a positive integer below 2**63"
_INSTANT = "an ISO 8601 instant with its zone"
_ARTIFACT_TYPE = f"one of {', '.join(ARTIFACT_TYPES)}"
_CONTENT_TYPE = f"one of {', '.join(CONTENT_TYPES)}"
_NODE_KEY = f"a node key, {NODE_KEY.pattern}"


@dataclass(frozen=True)  # without slots: the class itself then has the numbers of v1, too
class HandoffPolicy:
    """The bounds of a handoff; the defaults are policy v1. Lengths are UTF-16 units of included content."""

    max_upstream_artifacts: int = 4
    max_context_chars_total: int = 32_000
    max_chars_per_artifact: int = 12_000
    min_remaining_chars: int = 1_000
    max_distance: int = 1

    def __post_init__(self) -> None:
        for name in BOUNDS:
            value = getattr(self, name)
            if not is_integer(value) or value < 0:
                raise InvalidHandoff(name, value, "an integer of 0 or more")


BOUNDS: Final = tuple(bound.name for bound in fields(HandoffPolicy))
ContextHandoffPolicyV1 = HandoffPolicy
_EVERYTHING = HandoffPolicy(MAX_ID, MAX_ID, MAX_ID, 0)


@dataclass(frozen=True, slots=True)
class UpstreamArtifact:
    """One artifact of a predecessor; `chars` is the length of its content in UTF-16 units, `utf8` its bytes."""

    run_node_id: int
    node_key: str
    sequence_index: int
    attempt: int
    artifact_id: int
    artifact_type: str
    content_type: str
    created_at: str
    content: str
    distance: int = 1
    chars: int = field(init=False, repr=False, compare=False)
    utf8: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _require(is_id(self.run_node_id), "run_node_id", self.run_node_id, _ID)
        _require(is_id(self.attempt), "attempt", self.attempt, _ID)
        _require(is_id(self.artifact_id), "artifact_id", self.artifact_id, _ID)
        _require(is_id(self.distance), "distance", self.distance, _ID)
        _require(is_integer(self.sequence_index), "sequence_index", self.sequence_index, "an integer")
        _require(is_node_key(self.node_key), "node_key", self.node_key, _NODE_KEY)
        _require(self.artifact_type in ARTIFACT_TYPES, "artifact_type", self.artifact_type, _ARTIFACT_TYPE)
        _require(self.content_type in CONTENT_TYPES, "content_type", self.content_type, _CONTENT_TYPE)
        _require(isinstance(self.content, str), "content", self.content, "text")
        object.__setattr__(self, "created_at", _instant("created_at", self.created_at))
        data, chars = encode_counted(self.content, "content")
        object.__setattr__(self, "utf8", data)
        object.__setattr__(self, "chars", chars)


@dataclass(frozen=True, slots=True)
class Handoff:
    """What a node gets: the entries, in order, and the manifest that accounts for them."""

    entries: tuple[str, ...]
    manifest: dict[str, Any]


class _Placement(NamedTuple):
    """What was placed: of each entry its text, source, counts and hash; what could mislead in it; what was left out."""

    entries: list[str]
    node_keys: list[str]
    counts: list[dict[str, int]]
    digests: list[str]
    flagged: list[tuple[int, ContentFlags]]
    dropped: list[tuple[int, int]]
    """Id and length of each."""
    is_overflow: bool


def assemble_handoff(
    artifacts: Iterable[UpstreamArtifact],
    *,
    workflow_run_id: int,
    target_node_key: str,
    assembled_at: str,
    policy: HandoffPolicy = HandoffPolicy(),
    extensions: Sequence[Extension] = (),
) -> Handoff:
    """Return the context of one node, made of the artifacts of its selected direct predecessors, in any order.

    Reports come first, by policy v1; what `extensions` use is taken off the total before reports are placed.
    """
    expect(policy, HandoffPolicy, "policy", "a HandoffPolicy")
    artifacts = expect_each(artifacts, UpstreamArtifact, "artifacts", "UpstreamArtifacts")
    in_scope = [artifact for artifact in artifacts if artifact.distance <= policy.max_distance]
    return assemble_ordered(
        order_candidates(latest_reports(in_scope)),
        bool(in_scope),
        workflow_run_id=workflow_run_id,
        target_node_key=target_node_key,
        assembled_at=assembled_at,
        policy=policy,
        extensions=extensions,
    )


def assemble_ordered(
    candidates: Iterable[UpstreamArtifact],
    has_artifacts: bool,
    *,
    workflow_run_id: int,
    target_node_key: str,
    assembled_at: str,
    policy: HandoffPolicy,
    extensions: Sequence[Extension] = (),
) -> Handoff:
    """Do the same with candidates that are the latest reports, in their stable order, already.

    Each is let go before the next is taken, so that their contents need not be in memory together. `has_artifacts`
    tells whether the predecessors left anything at all.
    """
    _require(is_id(workflow_run_id), "workflow_run_id", workflow_run_id, _ID)
    _require(is_node_key(target_node_key), "target_node_key", target_node_key, _NODE_KEY)
    assembly_timestamp = _instant("assembled_at", assembled_at)
    run, target, remaining_chars = workflow_run_id, target_node_key, policy.max_context_chars_total
    extras, accounts, used_chars = _place_extensions(extensions, remaining_chars, run, target)
    placement = _place_reports(candidates, policy, remaining_chars - used_chars, run, target)
    manifest = _manifest_of_reports(placement)
    manifest["no_eligible_artifact_types"] = has_artifacts and not placement.counts and not placement.dropped
    manifest["extensions"] = accounts
    manifest["assembly_timestamp"] = assembly_timestamp
    return Handoff((*placement.entries, *extras), manifest)


def account_for(reports: Iterable[UpstreamArtifact], assembled_at: str) -> dict[str, Any]:
    """Return the manifest of a node that takes these reports whole, in this order, and for which no entry is made."""
    placement = _place_reports(reports, _EVERYTHING, MAX_ID, 1, "nobody", write=lambda *_: "")
    manifest = _manifest_of_reports(placement)
    manifest |= {"no_eligible_artifact_types": False, "extensions": []}
    return {**manifest, "assembly_timestamp": _instant("assembled_at", assembled_at)}


def latest_reports(artifacts: Iterable[UpstreamArtifact]) -> list[UpstreamArtifact]:
    """Return the report of each run node that is the last by (created_at, artifact_id)."""
    latest: dict[int, UpstreamArtifact] = {}
    for artifact in artifacts:
        if artifact.artifact_type != "report":
            continue
        best = latest.get(artifact.run_node_id)
        if best is None or (artifact.created_at, artifact.artifact_id) > (best.created_at, best.artifact_id):
            latest[artifact.run_node_id] = artifact
        elif artifact.artifact_id == best.artifact_id and artifact != best:
            raise InvalidHandoff("artifact_id", artifact.artifact_id, "one artifact for each id of a run node")
    return list(latest.values())


def order_candidates(candidates: Iterable[UpstreamArtifact]) -> list[UpstreamArtifact]:
    """Return candidates by distance, sequence_index, node_key, run_node_id.

    Node keys are ASCII, so the order of their code points is the order of their code units.
    """
    return sorted(candidates, key=lambda a: (a.distance, a.sequence_index, a.node_key, a.run_node_id))


def _place_extensions(
    extensions: Sequence[Extension], remaining_chars: int, run: int, target: str
) -> tuple[list[str], list[dict[str, Any]], int]:
    """Return the entries of the extensions, the account of each, and how much they use together."""
    entries, accounts, used_chars = [], [], 0
    for extension in extensions:
        cut = cut_extension(extension, remaining_chars - used_chars)
        used_chars += cut.included_chars
        digest = sha256(extension.utf8).hexdigest()
        entries.append(write_extension(extension, cut, digest, run, target))
        accounts.append(_account(extension, cut, digest))
    return entries, accounts, used_chars


def _account(extension: Extension, cut: Cut, digest: str) -> dict[str, Any]:
    return {
        "name": extension.name,
        "source_node_key": extension.source_node_key,
        "source_run_node_id": extension.source_run_node_id,
        "source_attempt": extension.source_attempt,
        "sha256": digest,
        "original_chars": cut.original_chars,
        "included_chars": cut.included_chars,
        "dropped_chars": cut.dropped_chars,
        **find_flags(cut.text, extension.utf8)._asdict(),
    }


def _place_reports(
    candidates: Iterable[UpstreamArtifact],
    policy: HandoffPolicy,
    remaining_chars: int,
    run: int,
    target: str,
    write: Callable[[UpstreamArtifact, str, int, str, int, str], str] = write_envelope,
) -> _Placement:
    """Add candidates in order until the count or the room is used up; what follows is dropped."""
    entries: list[str] = []
    node_keys: list[str] = []
    counts: list[dict[str, int]] = []
    digests: list[str] = []
    flagged: list[tuple[int, ContentFlags]] = []
    dropped: list[tuple[int, int]] = []
    is_overflow, most_chars = False, policy.max_chars_per_artifact
    for artifact in candidates:
        if len(entries) == policy.max_upstream_artifacts or remaining_chars < policy.min_remaining_chars:
            dropped.append((artifact.artifact_id, artifact.chars))
            continue
        text, chars = artifact.content, artifact.chars
        if chars > most_chars or chars > remaining_chars:
            is_overflow |= remaining_chars < min(chars, most_chars)
            text, _, chars = head_tail(text, min(most_chars, remaining_chars), chars)
        remaining_chars -= chars
        digest = sha256(artifact.utf8).hexdigest()
        entries.append(write(artifact, text, chars, digest, run, target))
        node_keys.append(artifact.node_key)
        digests.append(digest)
        counts.append(
            {
                "artifact_id": artifact.artifact_id,
                "run_node_id": artifact.run_node_id,
                "original_chars": artifact.chars,
                "included_chars": chars,
                "dropped_chars": artifact.chars - chars,
            }
        )
        flags = find_flags(text, artifact.utf8)
        if flags is not CLEAN:
            flagged.append((artifact.artifact_id, flags))
    return _Placement(entries, node_keys, counts, digests, flagged, dropped, is_overflow or bool(dropped))


def _manifest_of_reports(placement: _Placement) -> dict[str, Any]:
    _, node_keys, counts, digests, flagged, dropped, is_overflow = placement
    cut_chars = sum([entry["dropped_chars"] for entry in counts])
    return {
        "context_policy_version": POLICY_VERSION,
        "included_artifact_ids": [entry["artifact_id"] for entry in counts],
        "included_source_node_keys": node_keys,
        "included_source_run_node_ids": [entry["run_node_id"] for entry in counts],
        "included_sha256": digests,
        "included_count": len(counts),
        "included_chars_total": sum([entry["included_chars"] for entry in counts]),
        "entries": counts,
        "truncated_artifact_ids": [entry["artifact_id"] for entry in counts if entry["dropped_chars"]],
        "dropped_artifact_ids": [artifact_id for artifact_id, _ in dropped],
        "dropped_chars_total": cut_chars + sum([chars for _, chars in dropped]),
        "budget_overflow": is_overflow,
        "missing_upstream_artifacts": not counts,
        "delimiter_in_content": [artifact_id for artifact_id, flags in flagged if flags.delimiter_in_content],
        "envelope_in_content": [artifact_id for artifact_id, flags in flagged if flags.envelope_in_content],
        "invisible_chars": [artifact_id for artifact_id, flags in flagged if flags.invisible_chars],
    }


def _instant(name: str, value: object) -> str:
    instant = find_instant(value)
    if instant is None:
        raise InvalidHandoff(name, value, _INSTANT)
    return instant


def _require(is_valid: bool, name: str, value: object, expected: str) -> None:
    if not is_valid:
        raise InvalidHandoff(name, value, expected)
