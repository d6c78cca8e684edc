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
    EngineBusy,
    EngineStuck,
    InvalidInput,
    InvalidKey,
    InvalidSettings,
    InvalidTemplateId,
    InvalidText,
    KeyTooDeep,
    NotCanonical,
    NotFound,
    RunBusy,
    SapwoodError,
)
from sapwood.version import __version__

__all__ = [
    "ArtifactKey",
    "ClockOutOfRange",
    "EngineBusy",
    "EngineStuck",
    "InvalidInput",
    "InvalidKey",
    "InvalidSettings",
    "InvalidTemplateId",
    "InvalidText",
    "KeyFactory",
    "KeyTooDeep",
    "NotCanonical",
    "NotFound",
    "RunBusy",
    "SapwoodError",
    "TemplateId",
    "__version__",
    "canonical_json",
    "hash_bytes",
    "hash_json",
    "hash_text",
]

_logging.getLogger("sapwood").addHandler(_logging.NullHandler())
