"""Executions as they are recorded, without the recording API: what template queries read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sapwood
from sapwood.core.artifacts import (
    AgentExecutionArtifacts,
    AgentRequest,
    Execution,
    OutcomeEvidence,
    OutcomeEvidenceArtifacts,
    PromptArgs,
    PromptContribution,
    RefArtifact,
    RenderedPrompt,
)
from sapwood.core.codec import to_record
from sapwood.core.keys import ArtifactKey
from sapwood.core.prompt import Contribution, assemble_prompt
from sapwood.ports import ArtifactStore, RunEnd, RunStart
from sapwood.templates.registry import TemplateRegistry


def record_run(
    store: ArtifactStore,
    registry: TemplateRegistry,
    prompts: Sequence[tuple[str, dict[str, Any], Sequence[Contribution]]],
    outcomes: dict[str, bool],
) -> ArtifactKey:
    """Store an execution that rendered these prompts and had these outcomes; return its key."""
    keys = sapwood.KeyFactory()
    run = keys.root()
    agents, evidence = keys.child(run), keys.child(run)
    request = keys.child(agents)
    artifacts: list[Any] = [
        Execution(key=run),
        AgentExecutionArtifacts(key=agents),
        OutcomeEvidenceArtifacts(key=evidence),
        AgentRequest(key=request, node="one", attempt=1),
    ]
    for template_id, args, contributions in prompts:
        done = registry.render(template_id, args)
        prompt = keys.child(request)
        text = assemble_prompt(done.text, contributions)
        artifacts += [
            RenderedPrompt(
                key=prompt,
                text=text,
                renderer=done.renderer,
                renderer_version=done.renderer_version,
                template_id=template_id,
            ),
            RefArtifact(key=keys.child(prompt), target=done.version.key, role="template"),
            PromptArgs(key=keys.child(prompt), args=args),
            *(
                PromptContribution(
                    key=keys.child(prompt), text=one.text, contributor=one.name, order=one.order, slot=one.slot
                )
                for one in contributions
            ),
        ]
    artifacts += [OutcomeEvidence(key=keys.child(evidence), name=name, passed=ok) for name, ok in outcomes.items()]
    start = RunStart(run, store.next_workflow_run_id(), run.time_ms)
    store.append([to_record(artifact) for artifact in artifacts], starts=[start])
    store.append([], end=RunEnd(run, "completed", run.time_ms, "0" * 64, len(artifacts)))
    return run
