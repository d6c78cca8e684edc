"""A workflow file and its answers go in; what each agent was given and what was recorded come out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import sapwood
from sapwood.core.artifacts import Report
from sapwood.core.codec import from_record
from sapwood.core.kind import Artifact
from sapwood.core.prompt import ProviderRunOptions
from tests.app.project import make_project

A = TypeVar("A", bound=Artifact)


class Call(NamedTuple):
    """What a provider was called with."""

    prompt: str
    options: ProviderRunOptions

    @property
    def reports(self) -> list[tuple[str, str]]:
        """Return source and content of every report envelope in the context."""
        envelopes = [sapwood.parse_envelope(entry) for entry in self.options.context if entry.startswith("ALPHRED")]
        return [(envelope.source_node_key, envelope.content) for envelope in envelopes]

    @property
    def extensions(self) -> list[sapwood.ExtensionEnvelope]:
        return [sapwood.parse_extension(entry) for entry in self.options.context if entry.startswith("SAPWOOD")]


class Story:
    """One project, its store, and every call that the scripted provider got."""

    def __init__(self, folder: Path, calls: list[Call]) -> None:
        self.folder = folder
        self.store = sapwood.open(folder / "s.db")
        self._calls = calls

    def run(self, flow: str, answers: str = "answers: {}", **inputs: Any) -> sapwood.ArtifactKey:
        """Run the workflow to its end."""
        self.prepare(flow, answers)
        return sapwood.run_workflow(self.project / "flow.yaml", inputs, store=self.store, project=self.project)

    def prepare(self, flow: str, answers: str) -> None:
        """Write `flow.yaml` and `answers.yaml` into the project, which is made when it is not there."""
        if not self.project.exists():
            make_project(self.project, flow)
        (self.project / "flow.yaml").write_text(flow)
        (self.project / "answers.yaml").write_text(answers)

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def status(self, run: sapwood.ArtifactKey) -> str:
        return next(row.status for row in self.store.runs() if row.key == run)

    def calls(self, node: str) -> list[Call]:
        return [call for call in self._calls if call.options.node == node]

    def call(self, node: str) -> Call:
        return self.calls(node)[-1]

    def all(self, run: sapwood.ArtifactKey, kind: type[A]) -> list[A]:
        """Return the stored artifacts of exactly this kind, in key order."""
        with self.store.artifacts.read() as reader:
            found = [from_record(record) for record in reader.load_kinds(run, [kind.__name__])]
        return [one for one in found if isinstance(one, kind)]

    def manifest(self, run: sapwood.ArtifactKey, node: str, kind: type[Report] = Report) -> dict[str, Any]:
        """Return the context manifest in the metadata of the node's last report or log."""
        manifest = [one for one in self.all(run, kind) if one.node_key == node][-1].context_manifest
        assert isinstance(manifest, dict)
        return manifest
