"""Opens a run of a workflow: the root, its four groups and what it was given, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sapwood.core.keys import ArtifactKey
from sapwood.core.workflow import Workflow, workflow_to_dict
from sapwood.ports import RunStart
from sapwood.runtime.records import opening_records
from sapwood.runtime.session import Store


def open_run(store: Store, workflow: Workflow, inputs: Mapping[str, Any], config: Mapping[str, Any]) -> ArtifactKey:
    """Record that a run of `workflow` begins and return its key; the graph is frozen in its ExecutionConfig."""
    store.recorder.hold_run()
    number = store.artifacts.next_workflow_run_id()
    frozen = {**config, "routing": {"graph": workflow_to_dict(workflow)}, "loops": _loops(workflow)}
    _, records = opening_records(store.keys, number, frozen, dict(sorted(inputs.items())), workflow.name)
    run = records[0].key
    store.recorder.append(records, [RunStart(run, number, run.time_ms, store.recorder.owner)])
    return run


def _loops(workflow: Workflow) -> dict[str, Any]:
    return {f"{edge.source}->{edge.target}": edge.max_loops for edge in workflow.edges if edge.is_loop}
