"""A run written straight into a store, attempt by attempt, so that tests can ask what its next node would see."""

from __future__ import annotations

from typing import Any

from sapwood import ArtifactKey, KeyFactory
from sapwood.core.artifacts import (
    AgentExecutionArtifacts,
    AgentRequest,
    Execution,
    Log,
    Note,
    PhaseHandoff,
    PromptContribution,
    Report,
)
from sapwood.core.codec import to_record
from sapwood.core.kind import Artifact
from sapwood.core.selection import Visit
from sapwood.ports import ArtifactStore, RunStart
from sapwood.runtime.context import (
    AssembledContext,
    ContextRequest,
    assemble_context,
    budget_artifacts,
    contributions_of,
)

NOW = "2026-02-03T04:05:06.789Z"
KINDS: dict[str, type[Report]] = {"report": Report, "note": Note, "log": Log}


class ContextRun:
    """Nodes get their run_node_id and sequence_index in the order in which they are first visited."""

    def __init__(self, store: ArtifactStore, first_ms: int = 1_767_225_600_000) -> None:
        self._now_ms = first_ms
        self.keys = KeyFactory(clock=lambda: self._now_ms)
        self.store = store
        self.root = self.keys.root()
        self.workflow_run_id = store.next_workflow_run_id()
        self.agents = self.keys.child(self.root)
        self.nodes: dict[str, int] = {}
        self.visits: list[Visit] = []
        self._artifact_id = 0
        start = RunStart(self.root, self.workflow_run_id, first_ms, "test")
        records = [
            to_record(Execution(self.root, workflow="w", workflow_run_id=self.workflow_run_id)),
            to_record(AgentExecutionArtifacts(self.agents)),
        ]
        store.append(records, starts=[start])

    def add(self, *made: Artifact) -> None:
        self.store.append([to_record(one) for one in made])

    def visit(
        self,
        node: str,
        *artifacts: tuple[str, str],
        to: tuple[str, ...] = (),
        status: str = "completed",
        inside: ArtifactKey | None = None,
    ) -> ArtifactKey:
        """Record an attempt of `node` with its artifacts, (type, text) each, a second apart."""
        run_node_id = self.nodes.setdefault(node, len(self.nodes) + 1)
        attempt = sum(visit.node_key == node for visit in self.visits) + 1
        scope = self.keys.child(inside or self.agents)
        made: list[Artifact] = [AgentRequest(scope, node=node, attempt=attempt, run_node_id=run_node_id)]
        made += [self.artifact(scope, node, attempt, kind, text) for kind, text in artifacts]
        self.add(*made)
        self.visits.append(Visit(run_node_id, node, run_node_id - 1, attempt, status, to, scope))
        return scope

    def artifact(
        self, scope: ArtifactKey, node: str, attempt: int, kind: str, text: str, manifest: Any = None
    ) -> Report:
        self._now_ms += 1_000
        self._artifact_id += 1
        made = KINDS[kind](
            self.keys.child(scope),
            text=text,
            content_type="markdown",
            artifact_id=self._artifact_id,
            run_node_id=self.nodes.setdefault(node, len(self.nodes) + 1),
            node_key=node,
            attempt=attempt,
        )
        return made if manifest is None else _with_manifest(made, manifest)

    def phase(self, scope: ArtifactKey, phase: int, **fields: Any) -> None:
        self.add(PhaseHandoff(self.keys.child(scope), run_id=self.root.text, phase=phase, **fields))

    def request(self, node: str, **changes: Any) -> ContextRequest:
        attempt = sum(visit.node_key == node for visit in self.visits) + 1
        values: dict[str, Any] = {
            "workflow_run_id": self.workflow_run_id,
            "node_key": node,
            "attempt": attempt,
            "visits": tuple(self.visits),
            "assembled_at": NOW,
            "run": self.root,
        }
        return ContextRequest(**{**values, **changes})

    def context(self, node: str, **changes: Any) -> AssembledContext:
        return assemble_context(self.store, self.request(node, **changes))

    def perform(
        self, node: str, text: str, to: tuple[str, ...] = (), kind: str = "report", **changes: Any
    ) -> AssembledContext:
        """Do what the executor does: assemble, record the contributions, then the report or log with the manifest."""
        context = self.context(node, **changes)
        status = "completed" if kind == "report" else "failed"
        scope = self.visit(node, to=to, status=status)
        prompt = self.keys.child(scope)
        made: list[Artifact] = [
            PromptContribution(
                self.keys.child(prompt), text=one.text, contributor=one.name, order=one.order, slot=one.slot
            )
            for one in contributions_of(context)
        ]
        made += budget_artifacts(context, node, self.keys.child(scope))
        made.append(self.artifact(scope, node, self.visits[-1].attempt, kind, text, context.manifest))
        self.add(*made)
        return context


def _with_manifest(made: Report, manifest: Any) -> Report:
    fields = {name: getattr(made, name) for name in made.__struct_fields__}
    return type(made)(**{**fields, "context_manifest": manifest})
