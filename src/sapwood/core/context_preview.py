"""What a node of a workflow would get, before anything has run: from whom, in which order, and how much at most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sapwood.core.extensions import FAILURE_ROUTE, JOIN, RETRY, Extension, ExtensionPolicy
from sapwood.core.handoff import Handoff, HandoffPolicy, UpstreamArtifact, assemble_handoff
from sapwood.core.phases import PhaseManifest
from sapwood.core.workflow import AgentNode, Edge, Node, SpawnNode, Workflow

_SOME_TIME = "1970-01-01T00:00:00.000Z"
_BOUNDS = ExtensionPolicy()


@dataclass(frozen=True, slots=True)
class PossibleSource:
    """A direct predecessor: when its report is handed on, and how much of it when all are as long as may be."""

    node: str
    kind: str
    when: str
    most_chars: int
    rule: str


@dataclass(frozen=True, slots=True)
class PossibleExtension:
    """An extension that the workflow asks for: when it is given, and the most it may use."""

    name: str
    when: str
    most_chars: int
    rule: str


@dataclass(frozen=True, slots=True)
class ContextPreview:
    """All that a node can get. `earlier_phases` are the nodes whose PhaseHandoff the manifest selects from."""

    node: str
    kind: str
    gets_context: bool
    policy: HandoffPolicy
    sources: tuple[PossibleSource, ...]
    extensions: tuple[PossibleExtension, ...]
    manifest: PhaseManifest | None
    earlier_phases: tuple[tuple[int, str], ...]

    @property
    def most_chars(self) -> int:
        return sum(source.most_chars for source in self.sources) + sum(one.most_chars for one in self.extensions)


def preview_context(
    workflow: Workflow, node: Node, policy: HandoffPolicy, manifest: PhaseManifest | None
) -> ContextPreview:
    """Return what `node` would get if every predecessor were selected and wrote as much as the policy lets in."""
    into = [workflow.edges[place] for place in workflow.edges_into(node.key)] if node in workflow.nodes else []
    reporting = [edge for edge in into if edge.on in ("success", "terminal")]
    asked = _extensions(workflow, node, into)
    sources = sorted({edge.source for edge in reporting}, key=workflow.sequence_index)
    handoff = _fullest(workflow, node, sources, asked, policy)
    return ContextPreview(
        node.key,
        node.kind,
        isinstance(node, AgentNode),
        policy,
        tuple(
            _source(workflow, key, [edge for edge in reporting if edge.source == key], handoff.manifest, place, policy)
            for place, key in enumerate(sources, 1)
        ),
        tuple(
            PossibleExtension(one.name, one.when, placed["included_chars"], one.rule)
            for one, placed in zip(asked, handoff.manifest["extensions"], strict=True)
        ),
        manifest,
        _earlier(workflow, manifest),
    )


def named(preview: ContextPreview, key: str) -> ContextPreview:
    """Return the preview with the names that a run would have, for a node that is `key` in the whole workflow."""
    prefix = key[: -len(preview.node)] if key.endswith(preview.node) else ""
    sources = tuple(replace(source, node=prefix + source.node) for source in preview.sources)
    earlier = tuple((phase, prefix + node) for phase, node in preview.earlier_phases)
    return replace(preview, node=key, sources=sources, earlier_phases=earlier)


def _fullest(
    workflow: Workflow, node: Node, sources: list[str], asked: list[PossibleExtension], policy: HandoffPolicy
) -> Handoff:
    """Place the longest reports and extensions by the policy's own rule; the ids are the places in the list."""
    full = "x" * policy.max_chars_per_artifact
    reports = [
        UpstreamArtifact(place, key, workflow.sequence_index(key), 1, place, "report", "text", _SOME_TIME, full)
        for place, key in enumerate(sources, 1)
    ]
    extras = [Extension(one.name, node.key, 1, 1, _SOME_TIME, "x" * one.most_chars, one.most_chars) for one in asked]
    return assemble_handoff(
        reports, workflow_run_id=1, target_node_key=node.key, assembled_at=_SOME_TIME, policy=policy, extensions=extras
    )


def _source(
    workflow: Workflow, key: str, edges: list[Edge], manifest: dict[str, Any], place: int, policy: HandoffPolicy
) -> PossibleSource:
    included = {entry["artifact_id"]: entry["included_chars"] for entry in manifest["entries"]}
    chars = included.get(place, 0)
    if chars == policy.max_chars_per_artifact:
        rule = f"max_chars_per_artifact {policy.max_chars_per_artifact}"
    elif place in included:
        rule = f"max_context_chars_total {policy.max_context_chars_total}"
    elif len(included) == policy.max_upstream_artifacts:
        rule = f"max_upstream_artifacts {policy.max_upstream_artifacts}"
    else:
        rule = f"min_remaining_chars {policy.min_remaining_chars}"
    when = " or ".join(edge.conditions or "on success" for edge in edges)
    return PossibleSource(key, workflow.node(key).kind, when, chars, rule)


def _extensions(workflow: Workflow, node: Node, into: list[Edge]) -> list[PossibleExtension]:
    """Return what the node asks for and can get; failure routes and joins once for each node they can come from."""
    found = []
    if node.context.retry:
        found.append(PossibleExtension(RETRY, "from attempt 2, after one that failed", *_bound("max_retry_chars")))
    if node.context.failure_route:
        failing = sorted({e.source for e in into if e.on in ("failure", "terminal")}, key=workflow.sequence_index)
        found += [
            PossibleExtension(FAILURE_ROUTE, f"{source} failed", *_bound("max_failure_route_chars"))
            for source in failing
        ]
    if node.context.join:
        spawning = sorted({e.source for e in into if isinstance(workflow.node(e.source), SpawnNode)})
        found += [PossibleExtension(JOIN, f"the children of {key}", *_bound("max_join_chars")) for key in spawning]
    return found


def _bound(name: str) -> tuple[int, str]:
    most: int = getattr(_BOUNDS, name)
    return most, f"{name} {most}"


def _earlier(workflow: Workflow, manifest: PhaseManifest | None) -> tuple[tuple[int, str], ...]:
    if manifest is None:
        return ()
    agents = [node for node in workflow.nodes if isinstance(node, AgentNode) and node.phase is not None]
    return tuple(sorted((node.phase, node.key) for node in agents if node.phase and node.phase < manifest.phase))
