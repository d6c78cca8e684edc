"""Sapwood: bounded, explained context for agent workflows, and every run as one verifiable tree of artifacts.

The names below are the public interface; everything else may change.
"""

import logging as _logging

from sapwood.clock import KeyFactory
from sapwood.core.canonical import canonical_json
from sapwood.core.hashing import hash_bytes, hash_json, hash_text
from sapwood.core.keys import ArtifactKey
from sapwood.core.template import TemplateId
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
    "DanglingReference",
    "DuplicateClaim",
    "DuplicateKey",
    "EngineBusy",
    "EngineStuck",
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
    "WrongStore",
    "__version__",
    "canonical_json",
    "hash_bytes",
    "hash_json",
    "hash_text",
]

_logging.getLogger("sapwood").addHandler(_logging.NullHandler())
