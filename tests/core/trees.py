"""A small run with two agents, whose keys never change, for the tests of tree, seal and reconstruction."""

from __future__ import annotations

from typing import Any

from sapwood.clock import KeyFactory
from sapwood.core.artifacts import (
    AgentExecutionArtifacts,
    AgentRequest,
    AgentRequests,
    AgentResult,
    Execution,
    Input,
    InputArtifacts,
    OutcomeEvidence,
    OutcomeEvidenceArtifacts,
    PromptArgs,
    PromptContribution,
    PromptTemplate,
    RefArtifact,
    RenderedPrompt,
    Report,
    Seal,
    ToolCallArtifact,
    ToolInput,
    ToolOutput,
)
from sapwood.core.codec import to_record
from sapwood.core.config import execution_config
from sapwood.core.event_artifacts import artifact_of_event
from sapwood.core.events import NodeAddedEvent, NodeStreamDeltaEvent
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.prompt import render_provider_text
from sapwood.core.record import Record
from sapwood.core.seal import summarise

RENDERER = ("plain", "1")
TIME = "2026-01-01T00:00:00.000Z"


class FixedClock:
    """One millisecond later at every look."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        self.now_ms += 1
        return self.now_ms


def fixed_keys() -> KeyFactory:
    return KeyFactory(clock=FixedClock(), entropy=lambda count: b"\x07" * count)


def plain_render(text: str, args_json: bytes, variables: tuple[str, ...], template_id: str | None) -> str:
    """Stand in for the renderer: put the arguments' JSON where the template says."""
    return text.replace("{{ args }}", args_json.decode())


class SmallRun:
    """The records of a sealed run (`records`, in key order) and of the template it refers to (`template`)."""

    def __init__(self) -> None:
        self.keys = keys = fixed_keys()
        template = PromptTemplate(
            keys.root(), text="Do {{ args }}", template_id="tpl.agent.a", variables=("args",), last_updated_ms=1
        )
        self.template = to_record(template)
        self.made: list[Artifact] = []
        root = self.root = self.make(Execution, keys.root(), workflow="small", workflow_run_id=1)
        self.made.append(execution_config(keys.child(root), {"models": ["scripted"]}))
        inputs = self.child(InputArtifacts, root)
        self.child(Input, inputs, name="topic", value={"a": 1.5})
        agents = self.child(AgentExecutionArtifacts, root)
        self.lead = self.agent(agents, "lead", template.key)
        dispatch = self.child(AgentRequests, self.lead, node="lead", names=("helper",))
        self.helper = self.agent(dispatch, "helper", template.key)
        outcomes = self.child(OutcomeEvidenceArtifacts, root)
        self.child(OutcomeEvidence, outcomes, name="tests", passed=True, evidence={"count": 3})
        self.unsealed = sorted(map(to_record, self.made))
        summary = summarise(self.unsealed)
        self.seal = Seal(keys.child(root), status="completed", head=summary.head, counts=dict(summary.counts))
        self.records = [*self.unsealed, to_record(self.seal)]

    def find_shared(self, key: ArtifactKey) -> Record | None:
        return self.template if key == self.template.key else None

    def make(self, kind: type[Artifact], key: ArtifactKey, **fields: Any) -> ArtifactKey:
        self.made.append(kind(key, **fields))
        return key

    def child(self, kind: type[Artifact], parent: ArtifactKey, **fields: Any) -> ArtifactKey:
        return self.make(kind, self.keys.child(parent), **fields)

    def agent(self, parent: ArtifactKey, node: str, template: ArtifactKey) -> ArtifactKey:
        key = self.child(AgentRequest, parent, node=node, attempt=1, goal=f"goal of {node}")
        text = render_provider_text('Do {"x":1}\n\nmap of ' + node, ("entry one", "entry two"))
        prompt = self.child(RenderedPrompt, key, text=text, renderer=RENDERER[0], renderer_version=RENDERER[1])
        self.child(RefArtifact, prompt, target=template, role="template")
        self.child(PromptArgs, prompt, args={"x": 1})
        self.child(PromptContribution, prompt, text="map of " + node, contributor="map", order=1, slot="prompt")
        self.child(PromptContribution, prompt, text="entry two", contributor="b", order=1, slot="context")
        self.child(PromptContribution, prompt, text="entry one", contributor="a", order=1, slot="context")
        call = self.child(ToolCallArtifact, key, tool="grep", status="completed", call_id="c1")
        self.child(ToolInput, call, value={"pattern": node})
        self.child(ToolOutput, call, value=["line"])
        self.made.append(artifact_of_event(self.keys.child(key), NodeAddedEvent(f"{node}-1", node, TIME)))
        delta = NodeStreamDeltaEvent(f"{node}-2", node, TIME, delta_content="piece")
        self.made.append(artifact_of_event(self.keys.child(key), delta))
        result = self.child(AgentResult, key, status="completed", result={"done": True})
        self.child(Report, result, text=f"# {node}", content_type="markdown", artifact_id=1, node_key=node)
        return key
