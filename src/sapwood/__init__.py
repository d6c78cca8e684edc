"""Sapwood: bounded, explained context for agent workflows, and every run as one verifiable tree of artifacts.

The names below are the public interface; everything else may change.
"""

import logging as _logging
import typing as _typing

import sapwood.interrupts as _interrupts  # noqa: F401 (before anything that imports msgspec)
from sapwood.clock import KeyFactory
from sapwood.core.artifact_event import ArtifactEvent
from sapwood.core.canonical import canonical_json
from sapwood.core.envelope import Envelope, parse_envelope
from sapwood.core.extensions import Extension, ExtensionEnvelope, ExtensionPolicy, parse_extension
from sapwood.core.fences import parse_fences
from sapwood.core.handoff import ContextHandoffPolicyV1, Handoff, HandoffPolicy, UpstreamArtifact, assemble_handoff
from sapwood.core.hashing import hash_bytes, hash_json, hash_text
from sapwood.core.ingest_settings import IngestLimits, IngestSettings
from sapwood.core.keys import ArtifactKey
from sapwood.core.phases import PhaseHandoff, PhaseManifest, build_handoff_context, resolve_manifest
from sapwood.core.prompt import Contribution, Contributor, PromptContext, ProviderRunOptions, render_provider_text
from sapwood.core.provider import ProviderResult
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
    DocumentNotWritten,
    DuplicateClaim,
    DuplicateKey,
    EngineBroken,
    EngineBusy,
    EngineFailed,
    EngineStuck,
    IncompleteRun,
    IngestFailed,
    InvalidAnswer,
    InvalidArguments,
    InvalidArtifact,
    InvalidEnvelope,
    InvalidGuard,
    InvalidHandoff,
    InvalidInput,
    InvalidInputs,
    InvalidKey,
    InvalidPhase,
    InvalidScript,
    InvalidSettings,
    InvalidTemplateId,
    InvalidText,
    InvalidWorkflow,
    KeyTooDeep,
    LimitReached,
    NotCanonical,
    NotEnriched,
    NotFound,
    PathRefused,
    ProviderBrokeProtocol,
    ProviderError,
    ProviderFailed,
    RecordingRefused,
    RunBusy,
    RunChanged,
    RunSealed,
    SapwoodError,
    ScopeEnded,
    SpawnRefused,
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
    TemplateNotRun,
    TemplateNotStatic,
    TemplateSyntax,
    UndeclaredVariable,
    UndefinedValue,
    UnknownTokenizer,
    WorktreeFailed,
    WrongArgument,
    WrongStore,
)
from sapwood.ingest.ingest import ingest_document
from sapwood.templates.rendering import render_template
from sapwood.templates.template import Template
from sapwood.version import __version__

__all__ = [
    "ArtifactEvent",
    "ArtifactKey",
    "ClockOutOfRange",
    "ContextBudgetResult",
    "ContextHandoffPolicyV1",
    "Contribution",
    "Contributor",
    "DanglingReference",
    "DocumentNotWritten",
    "DuplicateClaim",
    "DuplicateKey",
    "EngineBroken",
    "EngineBusy",
    "EngineFailed",
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
    "InvalidAnswer",
    "InvalidArguments",
    "InvalidArtifact",
    "InvalidEnvelope",
    "InvalidGuard",
    "InvalidHandoff",
    "InvalidInput",
    "InvalidInputs",
    "InvalidKey",
    "InvalidPhase",
    "InvalidScript",
    "InvalidSettings",
    "InvalidTemplateId",
    "InvalidText",
    "InvalidWorkflow",
    "KeyFactory",
    "KeyTooDeep",
    "LimitReached",
    "NotCanonical",
    "NotEnriched",
    "NotFound",
    "PathRefused",
    "PhaseHandoff",
    "PhaseManifest",
    "PromptContext",
    "ProviderBrokeProtocol",
    "ProviderError",
    "ProviderFailed",
    "ProviderResult",
    "ProviderRunOptions",
    "RecordingRefused",
    "RunBusy",
    "RunChanged",
    "RunSealed",
    "SapwoodError",
    "ScopeEnded",
    "SpawnRefused",
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
    "TemplateNotRun",
    "TemplateNotStatic",
    "TemplateSyntax",
    "Templated",
    "TokenCounter",
    "UndeclaredVariable",
    "UndefinedValue",
    "UnknownTokenizer",
    "UpstreamArtifact",
    "WorktreeFailed",
    "WrongArgument",
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
    "open",
    "parse_envelope",
    "parse_extension",
    "parse_fences",
    "render_provider_text",
    "render_template",
    "resolve_manifest",
    "run_workflow",
    "truncate_to_token_budget",
]

_logging.getLogger("sapwood").addHandler(_logging.NullHandler())

if _typing.TYPE_CHECKING:
    import os as _os

    from sapwood.ports import Clock as _Clock
    from sapwood.ports import Entropy as _Entropy
    from sapwood.runtime.session import Store as _Store


def open(  # noqa: A001  # the public name
    url: "str | _os.PathLike[str]", *, clock: "_Clock | None" = None, entropy: "_Entropy | None" = None
) -> "_Store":
    """Open the store at `url`, a file or `memory:`; a file that is not there is made."""
    from sapwood.app import open_store as _open_store

    given = {"clock": clock, "entropy": entropy}
    return _open_store(url, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]


def run_workflow(
    path_or_name: "str | _os.PathLike[str]",
    inputs: "_typing.Mapping[str, _typing.Any] | None" = None,
    store: "_Store | str | _os.PathLike[str] | None" = None,
    project: "str | _os.PathLike[str]" = ".",
) -> ArtifactKey:
    """Run a workflow file, or a built-in workflow by its name, to its end; return the run's key.

    `store` is an open store, or where one is; without it the project's own is used. A run that failed has a key too:
    its status is in the store.
    """
    from sapwood.app.runner import run_workflow as _run_workflow

    return _run_workflow(path_or_name, inputs, store=store, project=project)
