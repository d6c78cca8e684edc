"""What a RefArtifact refers to, read from its stored bytes alone: recording and judging ask for each of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec

from sapwood.core.canonical import NO_JSON
from sapwood.core.keys import ArtifactKey
from sapwood.core.record import Record
from sapwood.errors import InvalidArtifact, InvalidKey

EVIDENCE_ROLE: Final = "evidence_for"  # from a small run of its own to the sealed run that it says something of


class _Reference(msgspec.Struct):
    target: str


_read = msgspec.json.Decoder(_Reference).decode


def target_of(reference: Record) -> ArtifactKey:
    """Return the key it refers to; raise InvalidArtifact when its bytes name none."""
    with suppress(*NO_JSON, InvalidKey):
        return ArtifactKey(_read(reference.content).target)
    raise InvalidArtifact(f"RefArtifact {reference.key}", "its target is no artifact key")
