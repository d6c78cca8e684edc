"""Artifact: what every kind has, and UnknownArtifact: a kind that only a newer version knows."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from sapwood.core.keys import ArtifactKey
from sapwood.core.record import Record
from sapwood.core.typed import JsonObject, Typed


class _WithMetadata(Typed, frozen=True, kw_only=True):
    metadata: JsonObject = msgspec.field(default_factory=dict)


class Artifact(_WithMetadata, frozen=True, tag_field="kind", tag=True):
    """A key first, then the fields of the kind; `metadata` is free, `unknown` holds a newer version's content."""

    content_field: ClassVar[str | None] = None
    media: ClassVar[str | None] = None
    metadata_fields: ClassVar[frozenset[str]] = frozenset()

    key: ArtifactKey

    @property
    def kind(self) -> str:
        return type(self).__name__


class UnknownArtifact(msgspec.Struct, frozen=True):
    """An artifact of a kind that a newer version wrote: kept as it is."""

    record: Record

    @property
    def key(self) -> ArtifactKey:
        return self.record.key

    @property
    def kind(self) -> str:
        return self.record.kind
