"""What was refused stays in the record: a ValidationError of its own, once for each different mistake."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from sapwood.clock import KeyFactory
from sapwood.core.artifacts import ValidationError
from sapwood.core.codec import from_record, to_record
from sapwood.errors import InvalidInput
from sapwood.ports import ArtifactStore
from sapwood.templates.files import RefusedFile

KIND = "ValidationError"
_ABOUT = re.compile(r"(?:template |not a template id: ')(tpl[^\s,:']*)")


def record_refusals(store: ArtifactStore, keys: KeyFactory, refused: Iterable[RefusedFile], project: Path) -> None:
    """Store a standalone ValidationError for each refused file that the store does not have in these words."""
    _record(store, [_artifact(keys, _place(file, project), file.error) for file in refused])


def record_refusal(store: ArtifactStore, keys: KeyFactory, template_id: str, error: InvalidInput) -> None:
    """Store a standalone ValidationError for a text that code could not register, once."""
    _record(store, [_artifact(keys, template_id, error)])


def list_refusals(store: ArtifactStore, prefix: str = "tpl") -> list[ValidationError]:
    """Return the standalone errors about ids below `prefix`, oldest first; for `tpl` also those about no id."""
    with store.read() as reader:
        records = [record for record in reader.load_kinds(None, [KIND]) if record.key.depth == 1]
    errors = [error for error in map(from_record, records) if isinstance(error, ValidationError)]
    family = prefix.rstrip(".") + "."
    return [error for error in errors if family == "tpl." or _family(error).startswith(family)]


def refused_now(refused: Iterable[RefusedFile], project: Path) -> set[tuple[str, str, str]]:
    """Return code, message and place of the errors that these files have, as they are stored."""
    return {_words(_place(file, project), file.error) for file in refused}


def _record(store: ArtifactStore, errors: list[ValidationError]) -> None:
    if not errors:
        return
    with store.read() as reader:
        stored = {record.content_hash for record in reader.load_kinds(None, [KIND]) if record.key.depth == 1}
    new = {record.content_hash: record for record in map(to_record, errors) if record.content_hash not in stored}
    if new:
        store.append(list(new.values()))


def _artifact(keys: KeyFactory, where: str, error: InvalidInput) -> ValidationError:
    code, message, place = _words(where, error)
    return ValidationError(keys.root(), code=code, message=message, where=place)


def _words(where: str, error: InvalidInput) -> tuple[str, str, str]:
    return type(error).__name__, _text(str(error)), _text(where)


def _family(error: ValidationError) -> str:
    """Return the id that an error is about, with a dot behind it."""
    about = _ABOUT.match(error.message)
    return f"{about[1]}." if about else ""


def _text(words: str) -> str:
    """Return words that may be stored: the name of a file need not be valid Unicode."""
    return words.encode("utf-8", "backslashreplace").decode()


def _place(file: RefusedFile, project: Path) -> str:
    path = file.path.relative_to(project) if file.path.is_relative_to(project) else file.path
    return f"{path}:{file.line}" if file.line else str(path)
