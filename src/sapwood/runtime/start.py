"""Opens a run of a workflow: the root, its four groups and what it was given, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sapwood.core.artifacts import (
    AgentExecutionArtifacts,
    Execution,
    Input,
    InputArtifacts,
    OutcomeEvidenceArtifacts,
)
from sapwood.core.codec import to_record
from sapwood.core.config import execution_config
from sapwood.core.keys import ArtifactKey
from sapwood.core.workflow import Workflow, workflow_to_dict
from sapwood.ports import RunStart
from sapwood.runtime.session import Store


def open_run(store: Store, workflow: Workflow, inputs: Mapping[str, Any], config: Mapping[str, Any]) -> ArtifactKey:
    """Record that a run of `workflow` begins and return its key; the graph is frozen in its ExecutionConfig."""
    store.recorder.hold_run()
    keys, run = store.keys, store.keys.root()
    workflow_run_id = store.artifacts.next_workflow_run_id()
    frozen = {**config, "routing": {"graph": workflow_to_dict(workflow)}, "loops": _loops(workflow)}
    configured = execution_config(keys.child(run), frozen)
    group = InputArtifacts(keys.child(run))
    artifacts = [
        Execution(run, workflow=workflow.name, workflow_run_id=workflow_run_id),
        configured,
        group,
        *(Input(keys.child(group.key), name=name, value=inputs[name]) for name in sorted(inputs)),
        AgentExecutionArtifacts(keys.child(run)),
        OutcomeEvidenceArtifacts(keys.child(run)),
    ]
    starts = [RunStart(run, workflow_run_id, run.time_ms, store.recorder.owner)]
    store.recorder.append([to_record(artifact) for artifact in artifacts], starts)
    return run


def _loops(workflow: Workflow) -> dict[str, Any]:
    return {f"{edge.source}->{edge.target}": edge.max_loops for edge in workflow.edges if edge.is_loop}
