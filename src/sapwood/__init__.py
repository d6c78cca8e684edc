"""Sapwood: bounded, explained context for agent workflows, and every run as one verifiable tree of artifacts.

The names below are the public interface; everything else may change.
"""

import logging as _logging

from sapwood.clock import KeyFactory
from sapwood.core.canonical import canonical_json
from sapwood.core.envelope import Envelope, parse_envelope
from sapwood.core.extensions import Extension, ExtensionEnvelope, ExtensionPolicy, parse_extension
from sapwood.core.handoff import ContextHandoffPolicyV1, Handoff, HandoffPolicy, UpstreamArtifact, assemble_handoff
from sapwood.core.hashing import hash_bytes, hash_json, hash_text
from sapwood.core.keys import ArtifactKey
from sapwood.core.phases import PhaseHandoff, PhaseManifest, build_handoff_context, resolve_manifest
from sapwood.core.template import TemplateId
from sapwood.core.tokens import (
    ContextBudgetResult,
    TokenCounter,
    apply_context_budget,
    estimate_tokens,
    truncate_to_token_budget,
)
from sapwood.errors import (
    ClockOutOfRange,
    DanglingReference,
    DuplicateClaim,
    DuplicateKey,
    EngineBusy,
    EngineStuck,
    IncompleteRun,
    InvalidArtifact,
    InvalidEnvelope,
    InvalidHandoff,
    InvalidInput,
    InvalidKey,
    InvalidPhase,
    InvalidSettings,
    InvalidTemplateId,
    InvalidText,
    KeyTooDeep,
    NotCanonical,
    NotFound,
    RecordingRefused,
    RunBusy,
    RunChanged,
    RunSealed,
    SapwoodError,
    ScopeEnded,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreUnwritable,
    SyncFailed,
    WrongStore,
)
from sapwood.version import __version__

__all__ = [
    "ArtifactKey",
    "ClockOutOfRange",
    "ContextBudgetResult",
    "ContextHandoffPolicyV1",
    "DanglingReference",
    "DuplicateClaim",
    "DuplicateKey",
    "EngineBusy",
    "EngineStuck",
    "Envelope",
    "Extension",
    "ExtensionEnvelope",
    "ExtensionPolicy",
    "Handoff",
    "HandoffPolicy",
    "IncompleteRun",
    "InvalidArtifact",
    "InvalidEnvelope",
    "InvalidHandoff",
    "InvalidInput",
    "InvalidKey",
    "InvalidPhase",
    "InvalidSettings",
    "InvalidTemplateId",
    "InvalidText",
    "KeyFactory",
    "KeyTooDeep",
    "NotCanonical",
    "NotFound",
    "PhaseHandoff",
    "PhaseManifest",
    "RecordingRefused",
    "RunBusy",
    "RunChanged",
    "RunSealed",
    "SapwoodError",
    "ScopeEnded",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreError",
    "StoreUnwritable",
    "SyncFailed",
    "TemplateId",
    "TokenCounter",
    "UpstreamArtifact",
    "WrongStore",
    "__version__",
    "apply_context_budget",
    "assemble_handoff",
    "build_handoff_context",
    "canonical_json",
    "estimate_tokens",
    "hash_bytes",
    "hash_json",
    "hash_text",
    "parse_envelope",
    "parse_extension",
    "resolve_manifest",
    "truncate_to_token_budget",
]

_logging.getLogger("sapwood").addHandler(_logging.NullHandler())
