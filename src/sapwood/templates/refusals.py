"""What was refused at start stays in the record: a ValidationError of its own, once for each different mistake."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sapwood.clock import KeyFactory
from sapwood.core.artifacts import ValidationError
from sapwood.core.codec import from_record, to_record
from sapwood.ports import ArtifactStore
from sapwood.templates.files import RefusedFile

KIND = "ValidationError"


def record_refusals(store: ArtifactStore, keys: KeyFactory, refused: Iterable[RefusedFile], project: Path) -> None:
    """Store a standalone ValidationError for each refused file that the store does not have in these words."""
    errors = [to_record(_artifact(keys, file, project)) for file in refused]
    if not errors:
        return
    with store.read() as reader:
        stored = {record.content_hash for record in reader.load_kinds(None, [KIND]) if record.key.depth == 1}
    new = {record.content_hash: record for record in errors if record.content_hash not in stored}
    if new:
        store.append(list(new.values()))


def list_refusals(store: ArtifactStore) -> list[ValidationError]:
    """Return the standalone errors, oldest first."""
    with store.read() as reader:
        records = [record for record in reader.load_kinds(None, [KIND]) if record.key.depth == 1]
    return [error for error in map(from_record, records) if isinstance(error, ValidationError)]


def _artifact(keys: KeyFactory, file: RefusedFile, project: Path) -> ValidationError:
    path = file.path.relative_to(project) if file.path.is_relative_to(project) else file.path
    where = f"{path}:{file.line}" if file.line else str(path)
    return ValidationError(key=keys.root(), code=type(file.error).__name__, message=str(file.error), where=where)
