"""The one look back of a run: what a claimed node is to see, read from the store in one snapshot.

`assemble_context` is called after the claim and directly before the provider. What it returns is all the executor
needs: the entries, the text of earlier phases, the manifest for the node's report or log, and the budget's result.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from sapwood.core import artifacts
from sapwood.core.artifacts import AgentRequests, BudgetResult, Report
from sapwood.core.codec import from_record
from sapwood.core.extensions import FAILURE_ROUTE, JOIN, RETRY, Extension, ExtensionPolicy, JoinChild, join_table
from sapwood.core.handoff import Handoff, HandoffPolicy, UpstreamArtifact, assemble_ordered
from sapwood.core.instants import instant_of_ms
from sapwood.core.keys import ArtifactKey
from sapwood.core.phases import END_LINE, PhaseHandoff, PhaseManifest, budgeted_handoff_context
from sapwood.core.prompt import Contribution
from sapwood.core.selection import COMPLETED, Visit, latest_visits, select_predecessors
from sapwood.core.tokens import CHARS_4, ContextBudgetResult, TokenCounter
from sapwood.core.workflow import ContextOptions
from sapwood.ports import ArtifactStore, Reader
from sapwood.runtime.loading import find_report

TYPE_OF_KIND: Final = {"Report": "report", "Note": "note", "Log": "log"}
PHASE_CONTRIBUTOR: Final = "phase_context"
HANDOFF_CONTRIBUTOR: Final = "handoff"
V1: Final = HandoffPolicy()
NO_EXTENSIONS: Final = ContextOptions()
EXTENSION_BOUNDS: Final = ExtensionPolicy()


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """What the executor knows when it has claimed a node.

    `visits` are all attempts of the run so far, each with its `scope`; `attempt` is the one now claimed. `manifest`
    is that of the node's phase, None for a node without one.
    """

    workflow_run_id: int
    node_key: str
    attempt: int
    visits: Sequence[Visit]
    assembled_at: str
    run: ArtifactKey
    policy: HandoffPolicy = V1
    options: ContextOptions = NO_EXTENSIONS
    extension_policy: ExtensionPolicy = EXTENSION_BOUNDS
    manifest: PhaseManifest | None = None
    counter: TokenCounter = CHARS_4


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """What a node is given. `entries` goes to `ProviderRunOptions.context` as it is.

    `manifest` belongs in `context_manifest` of the node's Report or Log. `phase_text` is "" or one contribution to the
    prompt. `budget` is the result for a BudgetResult artifact and a line of the budget log, None when no budget was
    applied.
    """

    entries: tuple[str, ...]
    manifest: dict[str, Any]
    phase_text: str = ""
    budget: ContextBudgetResult | None = None
    phase: int | None = None


def assemble_context(store: ArtifactStore, request: ContextRequest) -> AssembledContext:
    """Return the context of a claimed node, from what is stored now, all read at one moment.

    Use it so::

        context = assemble_context(store, ContextRequest(...))
        options = ProviderRunOptions(context=context.entries)
        composed = compose(templates, node.template, args, contributions_of(context), node_key)
        record(*budget_artifacts(context, node_key, keys.child(delivery_key)))  # and append_budget_line(...)
    """
    with store.read() as reader:
        handoffs = _phase_handoffs(reader, request)
        handoff = _handoff(reader, request)
    manifest = request.manifest
    if manifest is None or not handoffs:
        return AssembledContext(handoff.entries, handoff.manifest)
    text, result = budgeted_handoff_context(handoffs, manifest, request.counter)
    return AssembledContext(
        handoff.entries,
        handoff.manifest,
        f"{text}\n\n{END_LINE}" if text else "",
        result if manifest.max_tokens > 0 else None,
        manifest.phase,
    )


def contributions_of(context: AssembledContext) -> list[Contribution]:
    """Return one contribution for each entry, and one for the phase text, to go into the prompt."""
    made = [
        Contribution(HANDOFF_CONTRIBUTOR, entry, order, "context") for order, entry in enumerate(context.entries, 1)
    ]
    if context.phase_text:
        made.append(Contribution(PHASE_CONTRIBUTOR, context.phase_text))
    return made


def budget_artifacts(context: AssembledContext, node_key: str, key: ArtifactKey) -> list[BudgetResult]:
    """Return the BudgetResult of the assembly under `key`; none when no budget was applied."""
    result = context.budget
    if result is None:
        return []
    return [
        BudgetResult(
            key,
            original_tokens=result.original_tokens,
            budget_tokens=result.budget_tokens,
            truncated_tokens=result.truncated_tokens,
            was_truncated=result.was_truncated,
            phase=context.phase,
            node=node_key,
            estimator=result.estimator,
        )
    ]


def to_upstream(report: Report, sequence_index: int) -> UpstreamArtifact:
    """Return a stored report, note or log as the handoff sees it."""
    return UpstreamArtifact(
        run_node_id=_number(report.run_node_id),
        node_key=str(report.node_key),
        sequence_index=sequence_index,
        attempt=_number(report.attempt),
        artifact_id=_number(report.artifact_id),
        artifact_type=TYPE_OF_KIND[report.kind],
        content_type=report.content_type,
        created_at=instant_of_ms(report.key.time_ms),
        content=report.text,
    )


def _handoff(reader: Reader, request: ContextRequest) -> Handoff:
    """Place the latest report of each selected predecessor; one content at a time is in memory."""
    predecessors = sorted(
        select_predecessors(request.visits, request.node_key),
        key=lambda visit: (visit.sequence_index, visit.node_key, visit.run_node_id),
    )
    places = [(visit, _latest_place(reader, visit, ["Report"])) for visit in predecessors]
    has_artifacts = any(place for _, place in places) or _has_left_anything(reader, request.visits, predecessors)
    reports = ((visit, _read(reader, place)) for visit, place in places)
    return assemble_ordered(
        (to_upstream(report, visit.sequence_index) for visit, report in reports if report is not None),
        has_artifacts,
        workflow_run_id=request.workflow_run_id,
        target_node_key=request.node_key,
        assembled_at=request.assembled_at,
        policy=request.policy,
        extensions=list(_extensions(reader, request)),
    )


def _has_left_anything(reader: Reader, visits: Iterable[Visit], predecessors: Iterable[Visit]) -> bool:
    """Tell whether any attempt of these nodes left a note or a log."""
    nodes = {visit.run_node_id for visit in predecessors}
    tried = (visit for visit in visits if visit.run_node_id in nodes)
    return any(_latest_place(reader, visit, ["Note", "Log"]) for visit in tried)


def _latest(reader: Reader, visit: Visit, kinds: Sequence[str]) -> Report | None:
    """Return the visit's own last artifact of these kinds, by (created_at, artifact_id)."""
    return _read(reader, _latest_place(reader, visit, kinds))


def _latest_place(reader: Reader, visit: Visit, kinds: Sequence[str]) -> _Place | None:
    """Return where it is; contents stay unread."""
    best: _Place | None = None
    for outline in reader.outline(visit.scope, kinds) if visit.scope is not None else ():
        metadata = msgspec.json.decode(outline.metadata, type=_Origin)
        if metadata.run_node_id == visit.run_node_id and metadata.attempt == visit.attempt:  # not a sub-agent's
            place = _Place(outline.key.time_ms, metadata.artifact_id, outline.key)
            best = place if best is None else max(best, place)
    return best


def _read(reader: Reader, place: _Place | None) -> Report | None:
    return find_report(reader, None if place is None else place.key)


class _Place(NamedTuple):
    """Orders reports by the time they were made, then by their number."""

    created_ms: int
    artifact_id: int
    key: ArtifactKey


class _Origin(msgspec.Struct):
    """Whose artifact it is: the part of a report's metadata that selecting it needs."""

    run_node_id: int = 0
    attempt: int = 0
    artifact_id: int = 0


def _extensions(reader: Reader, request: ContextRequest) -> Iterator[Extension]:
    """Yield the extensions that the workflow asked for and that have something to say."""
    limits = request.extension_policy
    if request.options.retry:
        before = [v for v in request.visits if v.node_key == request.node_key and v.attempt == request.attempt - 1]
        yield from _logs(reader, [v for v in before if v.status == "failed"], RETRY, limits.max_retry_chars)
    if request.options.failure_route:
        failed = select_predecessors(request.visits, request.node_key, "failed")
        yield from _logs(reader, failed, FAILURE_ROUTE, limits.max_failure_route_chars)
    if request.options.join:
        for parent in select_predecessors(request.visits, request.node_key):
            yield from _join(reader, parent, request)


def _logs(reader: Reader, visits: Iterable[Visit], name: str, max_chars: int) -> Iterator[Extension]:
    for visit in visits:
        log = _latest(reader, visit, ["Log"])
        if log is not None:
            yield _extension(name, visit, log.key.time_ms, log.text, max_chars)


def _join(reader: Reader, parent: Visit, request: ContextRequest) -> Iterator[Extension]:
    """Yield the table of a fan-out's children: the nodes whose requests stand directly in the parent's."""
    scopes = {visit.scope for visit in request.visits}
    latest = latest_visits(request.visits).values()
    children = [visit for visit in latest if visit != parent and _opener(visit, scopes) == parent.scope]
    limit, places = request.extension_policy.max_join_line_chars, _places(reader, parent)
    rows, ended_ms = [], 0
    for c in children:
        said = _latest(reader, c, ["Report" if c.status == COMPLETED else "Log"])
        summary = "" if said is None else said.text.lstrip()[: 4 * limit]  # more than a line can show
        rows.append(
            JoinChild(c.node_key, places.get(c.node_key, c.sequence_index), c.run_node_id, c.attempt, c.status, summary)
        )
        ended_ms = ended_ms if said is None else max(ended_ms, said.key.time_ms)
    if rows:
        table = join_table(rows, limit)
        yield _extension(JOIN, parent, ended_ms, table, request.extension_policy.max_join_chars)


def _places(reader: Reader, parent: Visit) -> dict[str, int]:
    """Return the place of each child in the fan-out; who began first is chance."""
    found = [] if parent.scope is None else map(from_record, reader.load_kinds(parent.scope, [AgentRequests.__name__]))
    own = [one for one in found if isinstance(one, AgentRequests) and one.key.parent == parent.scope]
    names = [name for one in own if isinstance(one.names, tuple) for name in one.names]
    return {f"{parent.node_key}.{name}": place for place, name in enumerate(names)}


def _opener(visit: Visit, scopes: Container[ArtifactKey | None]) -> ArtifactKey | None:
    """Return the nearest of the scopes that this visit stands in; None for one that stands in none."""
    above = None if visit.scope is None else visit.scope.parent
    while above is not None and above not in scopes:
        above = above.parent
    return above


def _extension(name: str, visit: Visit, created_ms: int, content: str, max_chars: int) -> Extension:
    return Extension(
        name, visit.node_key, visit.run_node_id, visit.attempt, instant_of_ms(created_ms), content, max_chars
    )


def _phase_handoffs(reader: Reader, request: ContextRequest) -> list[PhaseHandoff]:
    """Return what the node's phase gets to see of earlier ones: their handoffs, else the latest earlier report."""
    manifest = request.manifest
    if manifest is None:
        return []
    stored = load_phase_handoffs(reader, request.visits, request.run, before=manifest.phase)
    found = [to_phase_handoff(handoff) for handoff in stored]
    return found or _legacy_handoff(reader, request, manifest.phase - 1)


def load_phase_handoffs(
    reader: Reader, visits: Iterable[Visit], run: ArtifactKey, before: int | None = None
) -> list[artifacts.PhaseHandoff]:
    """Return the handoffs of the phases before `before` (all without it), of each the latest completed, by time."""
    found: dict[int, artifacts.PhaseHandoff] = {}
    for visit in latest_visits(visits).values():
        if visit.status != COMPLETED or visit.scope is None or visit.scope.root != run:
            continue
        for record in reader.load_kinds(visit.scope, ["PhaseHandoff"]):
            handoff = from_record(record)
            if isinstance(handoff, artifacts.PhaseHandoff) and (before is None or handoff.phase < before):
                found[handoff.phase] = max(found.get(handoff.phase, handoff), handoff, key=_made)
    return sorted(found.values(), key=_made)


def _made(artifact: artifacts.PhaseHandoff) -> str:
    return artifact.key.last_segment


def _legacy_handoff(reader: Reader, request: ContextRequest, phase: int) -> list[PhaseHandoff]:
    """Return the latest earlier report as the narrative of the phase before; none before the first phase."""
    if phase < 1:
        return []
    others = [v for v in latest_visits(request.visits).values() if v.node_key != request.node_key]
    places = [_latest_place(reader, visit, ["Report"]) for visit in others if visit.status == COMPLETED]
    report = _read(reader, max((place for place in places if place is not None), default=None))
    return [] if report is None else [PhaseHandoff(request.run.text, phase, narrative=report.text)]


def to_phase_handoff(stored: artifacts.PhaseHandoff) -> PhaseHandoff:
    """Return the pure value of a stored handoff; fields that were not given are empty."""
    given = {name: getattr(stored, name) for name in PhaseHandoff.__slots__}
    return PhaseHandoff(**{name: value for name, value in given.items() if value is not msgspec.UNSET})


def _number(value: int | msgspec.UnsetType) -> int:
    return 0 if isinstance(value, msgspec.UnsetType) else value  # 0 is refused with the field's name
