"""The completion gate: judges what is persisted, not what a session believes, and counts it for the Seal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from sapwood.core.codec import from_record
from sapwood.core.keys import ArtifactKey
from sapwood.core.plans import check_plans
from sapwood.core.references import target_of
from sapwood.core.seal import MerkleHead, hash_leaf, is_seal
from sapwood.core.tree import REQUIRED_GROUPS
from sapwood.errors import InvalidArtifact
from sapwood.ports import Reader

PLANS: Final = ("DiscoveryReport", "PlanningTicket")
WATCHED: Final = frozenset({"Execution", "RefArtifact", "Seal", *PLANS, *REQUIRED_GROUPS})


class Judgement(NamedTuple):
    """What the tree holds, its head, its Seals, and why it is not complete: nothing, when it is."""

    problems: tuple[str, ...]
    seals: tuple[ArtifactKey, ...]
    kinds: dict[str, int]
    head: str

    @property
    def artifacts(self) -> int:
        return sum(self.kinds.values())


def judge(reader: Reader, run: ArtifactKey) -> Judgement:
    """Read the run once, in key order, and say whether it may complete."""
    merkle, kinds, groups = MerkleHead(), Counter[str](), Counter[str]()
    problems: list[str] = []
    seals: list[ArtifactKey] = []
    references: dict[str, ArtifactKey] = {}
    has_root, add = False, merkle.add
    for artifact in reader.outline(run):
        kind = artifact.kind
        if kind in WATCHED:
            if is_seal(artifact):
                seals.append(artifact.key)
                continue
            if kind == "Execution" and artifact.key != run:
                problems.append(f"a second root: Execution {artifact.key}")
            has_root = has_root or (kind == "Execution" and artifact.key == run)
            if kind == "RefArtifact":
                references.setdefault(artifact.content_hash, artifact.key)  # equal contents have equal targets
            groups[kind] += artifact.key.depth == 2
        add(hash_leaf(artifact))
        kinds[kind] += 1
    if not has_root:
        problems.append("no Execution at its root")
    problems += [
        f"required group {group}: {groups[group]} directly below the root, expected one"
        for group in REQUIRED_GROUPS
        if groups[group] != 1
    ]
    problems += _dangling(reader, references.values())
    if any(kinds[kind] for kind in PLANS):
        problems += _wrong_plans(reader, run)
    return Judgement(tuple(problems), tuple(seals), dict(sorted(kinds.items())), merkle.head().hex())


def _wrong_plans(reader: Reader, run: ArtifactKey) -> list[str]:
    plans, unreadable = [], []
    for record in reader.load_kinds(run, PLANS):
        try:
            plans.append(from_record(record))
        except InvalidArtifact as error:
            unreadable.append(str(error))
    return unreadable + [f"plan {finding.key}: {finding.message}" for finding in check_plans(plans)]


def _dangling(reader: Reader, references: Iterable[ArtifactKey]) -> list[str]:
    targets: dict[ArtifactKey, ArtifactKey] = {}
    unreadable = []
    for source in references:
        record = reader.find(source)
        assert record is not None  # one snapshot
        try:
            targets.setdefault(target_of(record), source)
        except InvalidArtifact:
            unreadable.append(f"RefArtifact {source} cannot be read")
    return unreadable + [
        f"RefArtifact {source} refers to {target}, which is not stored"
        for target, source in targets.items()
        if reader.find(target) is None
    ]
