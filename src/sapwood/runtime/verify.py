"""Verify: reads a run in key order, with constant memory, and says everything that is not as it was recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from sapwood.core.artifacts import RenderedPrompt, Seal
from sapwood.core.codec import from_record
from sapwood.core.findings import Finding
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact, UnknownArtifact
from sapwood.core.rebuild import Render, check_hashes, rebuild_prompt
from sapwood.core.record import Record
from sapwood.core.seal import check_seal, is_seal, summarise
from sapwood.errors import SapwoodError
from sapwood.ports import Reader
from sapwood.runtime.gate import judge

SAID_BEFORE_THE_RESULT: Final = ("Report", "Note", "Log")


class Verification(NamedTuple):
    """What was read and what was found; `head` is worth writing down somewhere else."""

    key: ArtifactKey | None  # None for the whole store
    artifacts: int
    head: str
    findings: tuple[Finding, ...]

    @property
    def is_ok(self) -> bool:
        return not any(finding.is_failure for finding in self.findings)


Progress = Callable[[int], None]


class Verifier:
    """Goes through the records of one run, or of a part of it."""

    def __init__(self, reader: Reader, render: Render, renderer: tuple[str, str], progress: Progress) -> None:
        self._reader = reader
        self._render = render
        self._renderer = renderer
        self._progress = progress
        self._count = 0
        self._findings: list[Finding] = []
        self._path: list[ArtifactKey] = []  # the stored ancestors of the record at hand
        self._is_open = False
        self._prompt: RenderedPrompt | None = None
        self._parts: list[Artifact] = []

    def verify_store(self) -> Verification:
        """Verify every run and every artifact beside the runs, and the store as a whole."""
        roots: dict[ArtifactKey, None] = {}
        try:
            roots = dict.fromkeys(artifact.key.root for artifact in self._reader.outline())
            roots |= dict.fromkeys(row.key for row in self._reader.list_runs())
        except SapwoodError as error:
            self._found("unreadable", None, f"reading stopped: {error}")
        for root in sorted(roots):
            self._verify(root)
        self._findings += [Finding("damaged", None, words) for words in self._reader.damaged()]
        return Verification(None, self._count, "", tuple(self._findings))

    def verify(self, key: ArtifactKey, head: str | None = None) -> Verification:
        """Verify the artifact with this key and all below it; `head` is one that was kept somewhere else."""
        found_head = self._verify(key)
        if head is not None and head.lower() != found_head:
            self._found("head_differs", key, f"the artifacts give {found_head}, the head kept elsewhere is {head}")
        self._findings += [Finding("damaged", key, words) for words in self._reader.damaged(key)]
        return Verification(key, self._count, found_head, tuple(self._findings))

    def _verify(self, key: ArtifactKey) -> str:
        """Look at every artifact at and below `key`, and at the run if it is one; return its head."""
        seal, before, self._prompt = None, self._count, None
        try:
            row = self._reader.find_run(key.root)
            self._is_open = row is not None and row.status == "running"
            for record in self._reader.load(key):
                self._count += 1
                self._progress(self._count)
                artifact = self._look_at(record, key)
                if is_seal(record) and isinstance(artifact, Seal) and seal is None:
                    seal = artifact
            self._check_prompt()
            return self._check_run(key, seal) if key.depth == 1 else ""
        except SapwoodError as error:
            self._found("unreadable", key, f"reading stopped after {self._count - before} artifacts: {error}")
            return ""

    def _look_at(self, record: Record, start: ArtifactKey) -> Artifact | UnknownArtifact | None:
        key = record.key
        self._findings += check_hashes([record])
        while self._path and not self._path[-1].is_ancestor_of(key):
            self._path.pop()
        if key.depth > 1 and key != start and not self._has_parent(record):
            self._found("orphan", key, "its parent is not stored", is_failure=False)
        self._path.append(key)
        try:
            artifact = from_record(record)
        except SapwoodError as error:
            self._found("unreadable", key, str(error))
            return None
        if self._prompt is not None and not self._prompt.key.is_ancestor_of(key):
            self._check_prompt()
        if isinstance(artifact, RenderedPrompt):
            self._prompt, self._parts = artifact, []
        elif self._prompt is not None and isinstance(artifact, Artifact):
            self._parts.append(artifact)
        return artifact

    def _has_parent(self, record: Record) -> bool:
        """Tell whether its parent is stored, or is the AgentResult that an open scope has yet to write."""
        parent, nearest = record.key.parent, self._path[-1] if self._path else None
        if self._is_open and record.kind in SAID_BEFORE_THE_RESULT and parent is not None:
            return nearest in (parent, parent.parent)
        return nearest == parent

    def _check_prompt(self) -> None:
        """Rebuild the prompt that has just been read from its parts, and compare."""
        prompt, parts, self._prompt = self._prompt, self._parts, None
        if prompt is None:
            return
        own = [part for part in parts if part.key.parent == prompt.key]
        rebuilt = rebuild_prompt(prompt, own, self._reader.find, self._render, self._renderer)
        self._findings += rebuilt.findings

    def _check_run(self, key: ArtifactKey, seal: Seal | None) -> str:
        """Check the groups, the references, the Seal and the index; return the head."""
        row = self._reader.find_run(key)
        summary = summarise(self._reader.outline(key))
        if row is None:
            if summary.counts.get("Execution"):
                self._found("not_indexed", key, "the run is not in the index")
            return summary.head
        if row.status == "running" and seal is None:
            return summary.head
        self._findings += check_seal(seal, key, summary)
        if seal is not None and (row.status, row.head) != (seal.status, seal.head):
            self._found("index_differs", key, f"the index says {row.status} {row.head}, the Seal {seal.status}")
        if seal is not None and seal.status == "completed":
            self._findings += [Finding("incomplete", key, problem) for problem in judge(self._reader, key).problems]
        return summary.head

    def _found(self, code: str, key: ArtifactKey | None, message: str, *, is_failure: bool = True) -> None:
        self._findings.append(Finding(code, key, message, is_failure))
