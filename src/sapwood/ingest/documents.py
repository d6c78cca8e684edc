"""The documents of a project's runs, and the files that they declare: `ports.Documents` over the safe writer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sapwood.core.artifacts import IngestedFile
from sapwood.core.ingest_settings import IngestSettings
from sapwood.core.keys import ArtifactKey
from sapwood.ingest.hooks import IngestHooks, Origin, write_document
from sapwood.ingest.recorded import artifacts_of
from sapwood.ports import Document, IngestedDocument


class ProjectDocuments:
    """Writes below one project directory; what is refused is told in the outcome, never raised by `ingest`."""

    def __init__(self, project: Path, settings: IngestSettings | None = None) -> None:
        self._project = project
        self._settings = replace(settings or IngestSettings(), on_error="continue")
        self._hooks = IngestHooks(project, self._settings, is_on=True)

    def write(self, document: Document) -> None:
        write_document(self._project, document.path, document.text, self._settings)

    def ingest(
        self, document: Document, parent: ArtifactKey, mint: Callable[[ArtifactKey], ArtifactKey]
    ) -> IngestedDocument:
        origin = Origin(document.run.text, document.node, document.attempt, document.mode)
        done = self._hooks.after_document(document.text, document.path, origin)
        assert done is not None  # it is on
        artifacts = list(artifacts_of(done, self._project, parent, mint))
        written = [one.workspace_path for one in artifacts if isinstance(one, IngestedFile) and one.role == "written"]
        return IngestedDocument(artifacts, written, done.manifest, done.problems)
