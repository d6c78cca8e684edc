"""Which executions used a template version, when, and what came of them: read from the record, never counted along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sapwood.core.artifacts import OutcomeEvidence, RefArtifact
from sapwood.core.codec import from_record
from sapwood.core.keys import ArtifactKey
from sapwood.core.references import EVIDENCE_ROLE
from sapwood.ports import Reader


@dataclass(frozen=True, slots=True)
class Use:
    """One execution that used a version: how often, from when to when, how it ended, and the facts about it."""

    run: ArtifactKey
    status: str
    first_ms: int
    last_ms: int
    prompts: int
    outcomes: tuple[OutcomeEvidence, ...]


class References:
    """Every reference in one view of the store, by what it points at."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._by_target: dict[ArtifactKey, list[RefArtifact]] = {}
        for reference in map(from_record, reader.load_kinds(None, ["RefArtifact"])):
            if isinstance(reference, RefArtifact):
                self._by_target.setdefault(reference.target, []).append(reference)

    def uses(self, version: ArtifactKey) -> list[Use]:
        """Return the executions that used this version, oldest first."""
        by_run: dict[ArtifactKey, list[int]] = {}
        for reference in self._by_target.get(version, ()):
            by_run.setdefault(reference.key.root, []).append(reference.key.time_ms)
        return [self._use(run, times) for run, times in sorted(by_run.items())]

    def use_times(self, versions: Iterable[ArtifactKey]) -> Mapping[ArtifactKey, tuple[int, int, int]]:
        """Return for each version that was used its first and last use, and in how many executions."""
        found = {}
        for version in versions:
            references = self._by_target.get(version)
            if references:
                times = [reference.key.time_ms for reference in references]
                found[version] = min(times), max(times), len({reference.key.root for reference in references})
        return found

    def _use(self, run: ArtifactKey, times: list[int]) -> Use:
        row = self._reader.find_run(run)
        status = "unknown" if row is None else row.status
        return Use(run, status, min(times), max(times), len(times), tuple(self._outcomes(run)))

    def _outcomes(self, run: ArtifactKey) -> list[OutcomeEvidence]:
        """Return the evidence in the run, then that which came after its Seal as a run of its own."""
        late = [ref.key.root for ref in self._by_target.get(run, ()) if ref.role == EVIDENCE_ROLE]
        roots = dict.fromkeys([run, *late])
        records = (record for root in roots for record in self._reader.load_kinds(root, ["OutcomeEvidence"]))
        return [evidence for evidence in map(from_record, records) if isinstance(evidence, OutcomeEvidence)]
