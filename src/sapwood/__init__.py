"""Sapwood: bounded, explained context for agent workflows, and every run as one verifiable tree of artifacts.

The names below are the public interface; everything else may change.
"""

import logging as _logging

from sapwood.clock import KeyFactory
from sapwood.core.canonical import canonical_json
from sapwood.core.envelope import Envelope, parse_envelope
from sapwood.core.extensions import Extension, ExtensionEnvelope, ExtensionPolicy, parse_extension
from sapwood.core.fences import parse_fences
from sapwood.core.handoff import ContextHandoffPolicyV1, Handoff, HandoffPolicy, UpstreamArtifact, assemble_handoff
from sapwood.core.hashing import hash_bytes, hash_json, hash_text
from sapwood.core.ingest_settings import IngestLimits, IngestSettings
from sapwood.core.keys import ArtifactKey
from sapwood.core.phases import PhaseHandoff, PhaseManifest, build_handoff_context, resolve_manifest
from sapwood.core.prompt import Contribution, Contributor
from sapwood.core.template import Templated, TemplateId
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
    IngestFailed,
    InvalidArguments,
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
    PathRefused,
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
    TemplateCollision,
    TemplateConflict,
    TemplateError,
    TemplateFailed,
    TemplateForbidden,
    TemplateLimit,
    TemplateNotStatic,
    TemplateSyntax,
    UndeclaredVariable,
    UndefinedValue,
    WrongStore,
)
from sapwood.ingest.ingest import ingest_document
from sapwood.templates.rendering import render_template
from sapwood.templates.template import Template
from sapwood.version import __version__

__all__ = [
    "ArtifactKey",
    "ClockOutOfRange",
    "ContextBudgetResult",
    "ContextHandoffPolicyV1",
    "Contribution",
    "Contributor",
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
    "IngestFailed",
    "IngestLimits",
    "IngestSettings",
    "InvalidArguments",
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
    "PathRefused",
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
    "Template",
    "TemplateCollision",
    "TemplateConflict",
    "TemplateError",
    "TemplateFailed",
    "TemplateForbidden",
    "TemplateId",
    "TemplateLimit",
    "TemplateNotStatic",
    "TemplateSyntax",
    "Templated",
    "TokenCounter",
    "UndeclaredVariable",
    "UndefinedValue",
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
    "ingest_document",
    "parse_envelope",
    "parse_extension",
    "parse_fences",
    "render_template",
    "resolve_manifest",
    "truncate_to_token_budget",
]

_logging.getLogger("sapwood").addHandler(_logging.NullHandler())
