"""What happened in a run, from its tree alone: prompts, tool use, events, who did what, in which order.

Every prompt is rebuilt from its template version, arguments and contributions, and compared byte for byte with what is
stored; a sealed run is compared with its Seal. Whatever is broken comes back as a list of findings; none of them stops
the telling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sapwood.core.artifacts import (
    AgentRequest,
    AgentResult,
    EventArtifact,
    OutcomeEvidence,
    RefArtifact,
    RenderedPrompt,
    Seal,
    ToolCallArtifact,
    ToolInput,
    ToolOutput,
)
from sapwood.core.codec import from_record
from sapwood.core.expect import expect
from sapwood.core.findings import Finding
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact, UnknownArtifact
from sapwood.core.plans import check_plans
from sapwood.core.rebuild import Find, Render, check_hashes, rebuild_prompt
from sapwood.core.record import Record
from sapwood.core.seal import check_seal, is_seal, summarise
from sapwood.core.tree import ArtifactTree, check_groups, check_orphans
from sapwood.errors import InvalidArtifact

SomeArtifact = TypeVar("SomeArtifact", bound=Artifact)


@dataclass(frozen=True, slots=True)
class Agent:
    """One attempt of one node; `parent` is the agent that dispatched it."""

    key: ArtifactKey
    node: str
    attempt: int
    parent: ArtifactKey | None
    status: str | None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as it is stored, and as its parts give it (None: they do not)."""

    key: ArtifactKey
    agent: ArtifactKey | None
    text: str
    rebuilt: str | None
    template_id: str | None
    template_key: ArtifactKey | None

    @property
    def is_rebuilt(self) -> bool:
        return self.rebuilt == self.text


@dataclass(frozen=True, slots=True)
class ToolUse:
    key: ArtifactKey
    agent: ArtifactKey | None
    tool: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """What happened; `attribution` names the agent of every artifact that has one."""

    agents: list[Agent] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    tool_uses: list[ToolUse] = field(default_factory=list)
    events: list[EventArtifact] = field(default_factory=list)
    outcomes: list[OutcomeEvidence] = field(default_factory=list)
    timeline: list[ArtifactKey] = field(default_factory=list)
    attribution: dict[ArtifactKey, ArtifactKey] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def reconstruct(
    tree: ArtifactTree, render: Render, renderer: tuple[str, str], find_shared: Find = lambda _: None
) -> Reconstruction:
    """Return what happened in `tree`.

    `renderer` is the name and version of `render`; `find_shared` gives artifacts outside the tree, such as templates.
    """
    expect(tree, ArtifactTree, "tree", "an ArtifactTree")
    told = Reconstruction(timeline=[record.key for record in tree.timeline()])
    told.findings.extend(check_hashes(tree.walk()))
    told.findings.extend(check_orphans(tree))
    typed = dict(_readable(tree, told.findings))
    told.attribution.update(_attribution(tree))
    story = _Story(tree, typed, told.attribution, render, renderer, find_shared, told.findings)
    for key, artifact in typed.items():
        if isinstance(artifact, AgentRequest):
            told.agents.append(story.agent(artifact))
        elif isinstance(artifact, RenderedPrompt):
            told.prompts.append(story.prompt(artifact))
        elif isinstance(artifact, ToolCallArtifact):
            told.tool_uses.append(story.tool_use(artifact))
        elif isinstance(artifact, OutcomeEvidence):
            told.outcomes.append(artifact)
        elif isinstance(artifact, RefArtifact) and story.find(artifact.target) is None:
            told.findings.append(Finding("dangling_reference", key, f"{artifact.target} is not stored"))
    told.findings.extend(check_plans(typed.values()))
    told.findings.extend(_check_seals(tree, typed))
    events = (typed.get(key) for key in told.timeline)
    told.events.extend(event for event in events if isinstance(event, EventArtifact))
    return told


def _readable(tree: ArtifactTree, findings: list[Finding]) -> Iterator[tuple[ArtifactKey, Artifact | UnknownArtifact]]:
    for record in tree.walk():
        try:
            yield record.key, from_record(record)
        except InvalidArtifact as error:
            findings.append(Finding("unreadable", record.key, str(error)))


def _check_seals(tree: ArtifactTree, typed: dict[ArtifactKey, Artifact | UnknownArtifact]) -> Iterator[Finding]:
    """Yield where a run is not what its Seal says; neither an open run nor a part of one has a Seal."""
    seals: dict[ArtifactKey, Seal] = {}
    for record in tree.of_kind("Seal"):
        seal = typed.get(record.key)
        if is_seal(record) and isinstance(seal, Seal):
            seals.setdefault(seal.key.root, seal)
    for run, seal in seals.items():
        summary = summarise(tree.walk(run))
        if summary.counts:  # else the Seal alone was asked for
            yield from check_seal(seal, run, summary)
            if seal.status == "completed":
                yield from check_groups(tree, run)


def _attribution(tree: ArtifactTree) -> Iterator[tuple[ArtifactKey, ArtifactKey]]:
    """Yield each artifact with the innermost AgentRequest that it is or stands below."""
    open_agents: list[ArtifactKey] = []
    for record in tree.walk():
        while open_agents and not open_agents[-1].is_ancestor_of(record.key):
            open_agents.pop()
        if record.kind == "AgentRequest":
            open_agents.append(record.key)
        if open_agents:
            yield record.key, open_agents[-1]


@dataclass(frozen=True, slots=True)
class _Story:
    """What the parts of a reconstruction are read from."""

    tree: ArtifactTree
    typed: dict[ArtifactKey, Artifact | UnknownArtifact]
    attribution: dict[ArtifactKey, ArtifactKey]
    render: Render
    renderer: tuple[str, str]
    find_shared: Find
    findings: list[Finding]

    def find(self, key: ArtifactKey) -> Record | None:
        return self.tree.find(key) or self.find_shared(key)

    def below(self, key: ArtifactKey, kind: type[SomeArtifact]) -> list[SomeArtifact]:
        found = (self.typed.get(record.key) for record in self.tree.children(key))
        return [artifact for artifact in found if isinstance(artifact, kind)]

    def agent(self, request: AgentRequest) -> Agent:
        results = (self.typed.get(record.key) for record in self.tree.walk(request.key) if record.kind == "AgentResult")
        own = [
            result.status
            for result in results
            if isinstance(result, AgentResult) and self.attribution[result.key] == request.key
        ]
        above = self.tree.shown_under(request.key)
        parent = self.attribution.get(above) if above else None
        return Agent(request.key, request.node, request.attempt, parent, own[-1] if own else None)

    def tool_use(self, call: ToolCallArtifact) -> ToolUse:
        inputs = tuple(part.value for part in self.below(call.key, ToolInput))
        outputs = tuple(part.value for part in self.below(call.key, ToolOutput))
        return ToolUse(call.key, self.attribution.get(call.key), call.tool, inputs, outputs)

    def prompt(self, prompt: RenderedPrompt) -> Prompt:
        parts = (self.typed.get(record.key) for record in self.tree.children(prompt.key))
        below = [part for part in parts if part is not None]
        rebuilt = rebuild_prompt(prompt, below, self.find, self.render, self.renderer)
        self.findings.extend(rebuilt.findings)
        return Prompt(
            prompt.key,
            self.attribution.get(prompt.key),
            prompt.text,
            rebuilt.text,
            rebuilt.template.template_id if rebuilt.template else None,
            rebuilt.template.key if rebuilt.template else None,
        )
