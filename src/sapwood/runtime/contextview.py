"""What a node saw and why, read back from its record; and what it would see under another policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import msgspec

from sapwood.core.artifacts import AgentRequest, BudgetResult, PromptContribution, Report
from sapwood.core.codec import from_record
from sapwood.core.config import ExecutionConfig, Policies
from sapwood.core.context_manifest import check_manifest
from sapwood.core.envelope import Envelope, parse_envelope
from sapwood.core.extensions import FAILURE_ROUTE, HEADER, JOIN, RETRY, Extension, ExtensionEnvelope, parse_extension
from sapwood.core.handoff import BOUNDS, HandoffPolicy, assemble_handoff
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact, UnknownArtifact
from sapwood.core.lengths import count_units
from sapwood.core.nested import find_node
from sapwood.core.workflow import workflow_from_dict
from sapwood.errors import InvalidHandoff, NotFound
from sapwood.ports import Reader
from sapwood.runtime.context import PHASE_CONTRIBUTOR, to_upstream
from sapwood.runtime.loading import find_report

_KINDS: Final = ("Report", "Log", "PromptContribution", "BudgetResult", "AgentRequest")
_BOUND_OF: Final = {RETRY: "max_retry_chars", FAILURE_ROUTE: "max_failure_route_chars", JOIN: "max_join_chars"}


@dataclass(frozen=True, slots=True)
class SeenEntry:
    """One entry of a context: where it came from, how much of it was kept, and the rule that cut it ("" for none).

    `text` is "" for what a node gathered itself.
    """

    source: str
    kind: str
    artifact_id: int | None
    original_chars: int
    included_chars: int
    dropped_chars: int
    rule: str
    text: str
    cut_text: str | None
    """What was cut out; None when the original is not there to compare."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that did not get in, and why."""

    source: str
    artifact_id: int
    chars: int
    rule: str


@dataclass(frozen=True, slots=True)
class SeenContext:
    """The context of one attempt of a node."""

    run: str
    node: str
    attempt: int
    recorded_in: str
    policy: HandoffPolicy
    manifest: dict[str, Any]
    entries: tuple[SeenEntry, ...]
    dropped: tuple[Dropped, ...]
    phase_text: str
    budgets: tuple[BudgetResult, ...]


def load_context(reader: Reader, run: ArtifactKey, node: str, attempt: int | None = None) -> SeenContext:
    """Return what an attempt of `node` saw: the last one unless `attempt` says which."""
    request = _find_request(reader, run, node, attempt)
    below = _own(request, [from_record(record) for record in reader.load_kinds(request.key, _KINDS)])
    own = [one for one in below if isinstance(one, Report) and one.node_key == node and _manifest(one)]
    if not own:
        raise NotFound(
            f"the context manifest of {node}", "the attempt has not ended, was stopped, or was not run by a workflow"
        )
    ended, parts = own[-1], [one for one in below if isinstance(one, PromptContribution)]
    contributions = _of_last_prompt(parts)
    texts = [one.text for one in contributions if one.slot == "context"]
    seen = SeenContext(
        run=run.text,
        node=node,
        attempt=request.attempt,
        recorded_in=ended.kind,
        policy=_recorded_policy(reader, run, node),
        manifest=check_manifest(_manifest(ended), f"{ended.kind} {ended.key}"),
        entries=(),
        dropped=(),
        phase_text=next((one.text for one in contributions if one.contributor == PHASE_CONTRIBUTOR), ""),
        budgets=tuple(one for one in below if isinstance(one, BudgetResult)),
    )
    return _with_entries(reader, seen, texts)


def with_policy(reader: Reader, seen: SeenContext, policy: HandoffPolicy) -> SeenContext:
    """Return what the node would have seen with the same candidates under another policy."""
    wanted = [*seen.manifest["included_artifact_ids"], *seen.manifest["dropped_artifact_ids"]]
    reports = _reports(reader, ArtifactKey(seen.run), wanted)
    row = reader.find_run(ArtifactKey(seen.run))
    if row is None:
        raise NotFound(f"run {seen.run}")
    missing = [artifact_id for artifact_id in wanted if artifact_id not in reports]
    if missing:
        raise NotFound(f"report {missing[0]} of run {seen.run}", "the run was imported without it")
    handoff = assemble_handoff(
        [to_upstream(reports[artifact_id], place) for place, artifact_id in enumerate(wanted)],
        workflow_run_id=row.workflow_run_id,
        target_node_key=seen.node,
        assembled_at=seen.manifest["assembly_timestamp"],
        policy=policy,
        extensions=[_again(parse_extension(entry.text)) for entry in seen.entries if entry.artifact_id is None],
    )
    return _with_entries(reader, replace(seen, policy=policy, manifest=handoff.manifest), handoff.entries)


def changed_policy(policy: HandoffPolicy, changes: Iterable[str]) -> HandoffPolicy:
    """Return the policy with changes of the form `max_context_chars_total=16000`."""
    values = asdict(policy)
    for change in changes:
        name, _, number = change.partition("=")
        if name not in values or not number.isdecimal():
            raise InvalidHandoff("policy", change, f"NAME=NUMBER with one of {', '.join(values)}")
        values[name] = int(number)
    return HandoffPolicy(**values)


def _find_request(reader: Reader, run: ArtifactKey, node: str, attempt: int | None) -> AgentRequest:
    if reader.find(run) is None:
        raise NotFound(f"run {run}", "`sapwood runs` lists what is stored")
    requests = [from_record(record) for record in reader.load_kinds(run, ["AgentRequest"])]
    own = [one for one in requests if isinstance(one, AgentRequest) and one.node == node]
    chosen = [one for one in own if attempt in (None, one.attempt)]
    if own and not chosen:
        tries = ", ".join(str(one.attempt) for one in own)
        raise NotFound(f"attempt {attempt} of node {node} in run {run}", f"there are {tries}")
    if not chosen:
        names = sorted({one.node for one in requests if isinstance(one, AgentRequest)})
        raise NotFound(f"node {node} in run {run}", f"it has {', '.join(names) or 'no nodes yet'}")
    return max(chosen, key=lambda one: one.attempt)


def _own(request: AgentRequest, below: Sequence[Artifact | UnknownArtifact]) -> list[Artifact | UnknownArtifact]:
    """Leave out what belongs to agents inside this one."""
    inner = [one.key for one in below if isinstance(one, AgentRequest) and one.key != request.key]
    return [one for one in below if not any(key == one.key or key.is_ancestor_of(one.key) for key in inner)]


def _of_last_prompt(parts: list[PromptContribution]) -> list[PromptContribution]:
    """Return the contributions of the last prompt in order: an interrupted delivery has left its own before."""
    last = max((one.key.parent for one in parts if one.key.parent), default=None)
    return sorted((one for one in parts if one.key.parent == last), key=lambda one: one.order)


def _with_entries(reader: Reader, seen: SeenContext, texts: Iterable[str]) -> SeenContext:
    """Return the context with its entries, and with what its manifest says was dropped."""
    manifest, policy = seen.manifest, seen.policy
    wanted = [*manifest["included_artifact_ids"], *manifest["dropped_artifact_ids"]]
    reports = _reports(reader, ArtifactKey(seen.run), wanted)
    is_full = manifest["included_count"] == policy.max_upstream_artifacts
    rule = (
        f"max_upstream_artifacts {policy.max_upstream_artifacts}"
        if is_full
        else f"min_remaining_chars {policy.min_remaining_chars}"
    )
    dropped = []
    for artifact_id in manifest["dropped_artifact_ids"]:
        report = reports.get(artifact_id)
        chars = 0 if report is None else count_units(report.text)
        dropped.append(Dropped("?" if report is None else str(report.node_key), artifact_id, chars, rule))
    entries = tuple(_entry(text, policy, reports) for text in texts) or _gathered(manifest)
    return replace(seen, entries=entries, dropped=tuple(dropped))


def _gathered(manifest: dict[str, Any]) -> tuple[SeenEntry, ...]:
    """Return the entries of a node that gathers reports itself, as a join does: no provider got them as a text."""
    return tuple(
        SeenEntry(
            source=source,
            kind="report",
            artifact_id=one["artifact_id"],
            original_chars=one["original_chars"],
            included_chars=one["included_chars"],
            dropped_chars=one["dropped_chars"],
            rule="",
            text="",
            cut_text=None,
        )
        for source, one in zip(manifest["included_source_node_keys"], manifest["entries"], strict=True)
    )


def _entry(text: str, policy: HandoffPolicy, reports: dict[int, Report]) -> SeenEntry:
    envelope: Envelope | ExtensionEnvelope
    if text.startswith(HEADER):
        envelope = parse_extension(text)
        kind, artifact_id, cap = envelope.extension, None, _BOUND_OF[envelope.extension]
    else:
        envelope = parse_envelope(text)
        kind, artifact_id = envelope.artifact_type, envelope.artifact_id
        is_own = envelope.included_chars == policy.max_chars_per_artifact
        cap = (
            f"max_chars_per_artifact {policy.max_chars_per_artifact}"
            if is_own
            else f"max_context_chars_total {policy.max_context_chars_total}"
        )
    original = None if artifact_id is None else reports.get(artifact_id)
    return SeenEntry(
        source=envelope.source_node_key,
        kind=kind,
        artifact_id=artifact_id,
        original_chars=envelope.original_chars,
        included_chars=envelope.included_chars,
        dropped_chars=envelope.dropped_chars,
        rule=cap if envelope.applied else "",
        text=text,
        cut_text=None if original is None else _middle(original.text, envelope.included_chars, envelope.dropped_chars),
    )


def _middle(original: str, included_chars: int, dropped_chars: int) -> str:
    """Return what a head-and-tail cut left out."""
    head = included_chars // 2
    units = original.encode("utf-16-le")
    return units[2 * head : 2 * (head + dropped_chars)].decode("utf-16-le", "replace")


def _reports(reader: Reader, run: ArtifactKey, wanted: list[int]) -> dict[int, Report]:
    found = {}
    for outline in reader.outline(run, ["Report"]) if wanted else ():
        artifact_id = msgspec.json.decode(outline.metadata).get("artifact_id")
        report = find_report(reader, outline.key) if artifact_id in wanted else None
        if report is not None:
            found[artifact_id] = report
    return found


def _recorded_policy(reader: Reader, run: ArtifactKey, node: str) -> HandoffPolicy:
    """Return the policy that stands in the run's configuration, with what the node sets itself; else v1."""
    for record in reader.load_kinds(run, ["ExecutionConfig"]):
        config = from_record(record)
        if isinstance(config, ExecutionConfig):
            return HandoffPolicy(**{**_of_run(config), **_of_node(config, node)})
    return HandoffPolicy()


def _of_run(config: ExecutionConfig) -> dict[str, int]:
    given = config.policies.handoff if isinstance(config.policies, Policies) else None
    return {name: given[name] for name in BOUNDS if name in given} if isinstance(given, dict) else {}


def _of_node(config: ExecutionConfig, node: str) -> dict[str, int]:
    graph = config.routing.get("graph") if isinstance(config.routing, dict) else None
    found = find_node(workflow_from_dict(graph), node) if isinstance(graph, dict) else None
    return {} if found is None else found[1].context.policy


def _again(envelope: ExtensionEnvelope) -> Extension:
    """Return an extension as it was included; the record holds no more of it."""
    return Extension(
        envelope.extension,
        envelope.source_node_key,
        envelope.source_run_node_id,
        envelope.source_attempt,
        envelope.created_at,
        envelope.content,
        envelope.included_chars,
    )


def _manifest(report: Report) -> dict[str, Any]:
    return report.context_manifest if isinstance(report.context_manifest, dict) else {}
