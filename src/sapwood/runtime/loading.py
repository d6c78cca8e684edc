"""One artifact of the store, as the kind that it has to be."""

from __future__ import annotations

from typing import TypeVar

from sapwood.core.artifacts import Report
from sapwood.core.codec import from_record
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.errors import NotFound
from sapwood.ports import Reader

A = TypeVar("A", bound=Artifact)


def load_artifact(reader: Reader, key: ArtifactKey, kind: type[A]) -> A:
    """Return the artifact with this key; raise NotFound when there is none, or one of another kind."""
    record = reader.find(key)
    artifact = None if record is None else from_record(record)
    if not isinstance(artifact, kind):
        raise NotFound(f"{kind.__name__} {key}")
    return artifact


def find_report(reader: Reader, key: ArtifactKey | None) -> Report | None:
    """Return the report with this key; None when there is none."""
    record = None if key is None else reader.find(key)
    artifact = None if record is None else from_record(record)
    return artifact if isinstance(artifact, Report) else None
