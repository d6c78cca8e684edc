"""Where a run meets ingest: after a node's document is written, and, if asked for, for text that no graph wrote."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from sapwood.core.hashing import hash_bytes, utf8
from sapwood.core.ingest_manifest import Source
from sapwood.core.ingest_settings import IngestSettings
from sapwood.core.outputs import DOCUMENT_ROOTS
from sapwood.core.paths import Refused, safe_path
from sapwood.errors import DocumentNotWritten, PathRefused
from sapwood.ingest.beneath import Blocked, names_in
from sapwood.ingest.ingest import Ingested, ingest
from sapwood.ingest.records import MANIFESTS, file_safe
from sapwood.ingest.staging import Draft, read_all
from sapwood.ingest.workspace import Project

_ALLOWED: Final = "documents go below docs/ or audits/ of the project"


@dataclass(frozen=True, slots=True)
class Origin:
    """The attempt of a node that a document or text belongs to."""

    run_id: str
    node_id: str
    attempt: int = 1
    mode: str = "unknown"


@dataclass(frozen=True, slots=True)
class IngestHooks:
    """Both hooks of one project; off unless turned on.

    Neither raises for what went wrong with a file: the caller records the outcome, then calls `raise_if_asked`.
    """

    project_dir: str | os.PathLike[str]
    settings: IngestSettings = field(default_factory=IngestSettings)
    is_on: bool = False
    is_on_for_text: bool = False

    def after_document(self, text: str, doc_path: str, origin: Origin) -> Ingested | None:
        """Ingest a document that a node has just written; None when ingest is off. Raises PathRefused elsewhere."""
        document_parts(doc_path, self.settings)
        if not self.is_on:
            return None
        source = Source(origin.run_id, origin.node_id, "graph_runtime", origin.mode, doc_path)
        return ingest(text, Project(self.project_dir), source, self.settings, attempt=origin.attempt)

    def after_text(self, text: str, doc_path: str, origin: Origin) -> Ingested | None:
        """Ingest text that no graph wrote; None when that is off, or when this attempt's document was ingested."""
        if not self.is_on_for_text or self._has_run(origin):
            return None
        source = Source(origin.run_id, origin.node_id, "cli", origin.mode, doc_path)
        return ingest(text, Project(self.project_dir), source, self.settings, attempt=origin.attempt)

    def _has_run(self, origin: Origin) -> bool:
        stem = f"{file_safe(origin.node_id)}-{origin.attempt}-"
        folder_parts = (*MANIFESTS, file_safe(origin.run_id))
        blocked = suppress(FileNotFoundError, Blocked)
        with blocked, Project(self.project_dir) as project, project.opened(folder_parts) as folder:
            return any(name.startswith(stem) for name in names_in(folder))
        return False


def write_document(
    project_dir: str | os.PathLike[str], doc_path: str, text: str, settings: IngestSettings | None = None
) -> None:
    """Write a node's document, synced; raise PathRefused for a place that is not allowed, else DocumentNotWritten."""
    root, *parts = document_parts(doc_path, settings or IngestSettings())
    draft = Draft(tuple(parts), utf8(text, "document"))
    try:
        with Project(project_dir) as project:
            outcomes, _ = project.write(root, [draft], lambda fd, _: hash_bytes(read_all(fd)))
    except Blocked as blocked:
        raise DocumentNotWritten(doc_path, blocked.reason) from None
    reason = outcomes[0].reason
    if reason not in ("", "unchanged"):
        raise DocumentNotWritten(doc_path, reason)


def document_parts(doc_path: str, settings: IngestSettings) -> tuple[str, ...]:
    """Return the parts of a document's path; raise PathRefused unless it lies below `docs/` or `audits/`."""
    parts = safe_path(doc_path, settings)
    if isinstance(parts, Refused):
        raise PathRefused(doc_path, parts.reason, _ALLOWED)
    if len(parts) < 2 or parts[0] not in DOCUMENT_ROOTS:
        raise PathRefused(doc_path, "another place", _ALLOWED)
    return parts
