"""ExecutionConfig of a workflow run: everything it takes to do the run again, frozen when it starts."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from sapwood.core.config import ExecutionConfig, Policies
from sapwood.core.handoff import BOUNDS, HandoffPolicy
from sapwood.core.hashing import hash_text
from sapwood.core.ingest_settings import IngestSettings
from sapwood.core.phases import DEFAULT_MANIFESTS, PhaseManifest, resolve_manifest
from sapwood.core.tokens import CHARS_4
from sapwood.core.workflow import AgentNode, Node, SpawnNode, Workflow, WorkflowNode, workflow_hash
from sapwood.errors import InvalidHandoff, InvalidPhase, InvalidSettings
from sapwood.ports import Templates
from sapwood.runtime.snapshot import take_snapshot
from sapwood.runtime.tokenizer import load_counter
from sapwood.version import __version__

OWN_FOLDERS: Final = (".sapwood", ".agents")


@dataclass(frozen=True, slots=True)
class RunPolicies:
    """The policies of a run as its project sets them; a workflow, and a node of it, may set others.

    Raises InvalidSettings for a name or a value that is none.
    """

    handoff: Mapping[str, int] = field(default_factory=dict)
    phases: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: str = CHARS_4.name
    ingest: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.handoff:
            if name not in BOUNDS:
                raise InvalidSettings(f"handoff.{name}", f"unknown; known are {', '.join(BOUNDS)}")
        for phase, fields in self.phases.items():
            if not str(phase).isdecimal() or not isinstance(fields, Mapping):
                raise InvalidSettings(f"phases.{phase}", "expected the number of a phase and a table of its fields")
        try:
            HandoffPolicy(**self.handoff)
            for phase, fields in self.phases.items():
                resolve_manifest(int(phase), fields)
        except (InvalidHandoff, InvalidPhase) as error:
            raise InvalidSettings("handoff" if isinstance(error, InvalidHandoff) else "phases", str(error)) from None

    def handoff_policy(self, node: AgentNode) -> HandoffPolicy:
        return HandoffPolicy(**{**self.handoff, **node.context.policy})

    def manifest(self, phase: int, workflow: Workflow) -> PhaseManifest:
        """Return the manifest of a phase: the default, changed by the project, changed by the workflow."""
        own = {str(name): value for name, value in self.phases.items()}.get(str(phase), {})
        return resolve_manifest(phase, {**own, **workflow.phase_override(phase)})


def read_policies(config: ExecutionConfig) -> RunPolicies:
    """Return the policies that a run was started with."""
    stored = config.policies if isinstance(config.policies, Policies) else Policies()
    handoff = stored.handoff if isinstance(stored.handoff, dict) else {}
    budgets = stored.budgets if isinstance(stored.budgets, dict) else {}
    ingest = stored.ingest if isinstance(stored.ingest, dict) else {}
    known = {name: handoff[name] for name in BOUNDS if name in handoff}
    return RunPolicies(known, budgets.get("phases", {}), budgets.get("tokenizer", CHARS_4.name), ingest)


def run_config(
    workflow: Workflow,
    templates: Templates,
    policies: RunPolicies,
    project: Path | None,
    *,
    ignore: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return the configuration of a run of `workflow`; `ignore` is what is not ours."""
    load_counter(policies.tokenizer)  # one that is not there is better known now than at the first agent
    agents = list(agent_nodes(workflow))
    about: dict[str, Any] = {"name": workflow.name, "sha256": workflow_hash(workflow)}
    if workflow.source is not None:
        about |= {"text": workflow.source, "sha256": hash_text(workflow.source)}
    config: dict[str, Any] = {
        "models": [_model(node) for node in agents],
        "tools": [
            {"name": name, "available": True, "limits": {}} for name in sorted({t for n in agents for t in n.tools})
        ],
        "policies": {
            "handoff": asdict(HandoffPolicy(**policies.handoff)),
            "budgets": {"phases": _phase_values(policies.phases), "tokenizer": policies.tokenizer},
            "ingest": _ingest_values(IngestSettings.of(policies.ingest)),
        },
        "workflow": about,
        "versions": {
            "sapwood": __version__,
            "python": platform.python_version(),
            "renderer": " ".join(templates.renderer),
            "templates": _template_versions(agents, templates),
        },
    }
    if project is not None:
        config["repository_snapshot"] = take_snapshot(project, (*OWN_FOLDERS, *ignore))
    return config


def _phase_values(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifests of the phases that have one, as the project has them; a workflow's own are in its graph."""
    own = {int(phase): fields for phase, fields in overrides.items()}
    manifests = [resolve_manifest(phase, own.get(phase)) for phase in sorted({*DEFAULT_MANIFESTS, *own})]
    names = ("handoff_fields", "narrative_cap", "max_tokens")
    return {str(manifest.phase): {name: getattr(manifest, name) for name in names} for manifest in manifests}


def _ingest_values(settings: IngestSettings) -> dict[str, Any]:
    return {**asdict(settings), "deny_names": sorted(settings.deny_names)}


def agent_nodes(workflow: Workflow) -> Iterator[AgentNode]:
    """Yield the agents of a workflow in the order of the file, with those inside other nodes."""
    for node in workflow.nodes:
        yield from _agents_in(node)


def _agents_in(node: Node) -> Iterator[AgentNode]:
    match node:
        case AgentNode():
            yield node
        case SpawnNode():
            yield from _agents_in(node.each)
        case WorkflowNode():
            yield from agent_nodes(node.definition)


def _model(node: AgentNode) -> dict[str, Any]:
    model = node.options.get("model")
    name = model if isinstance(model, str) else node.provider
    return {"name": name, "provider": node.provider, "role": node.key, "settings": node.options}


def _template_versions(agents: list[AgentNode], templates: Templates) -> dict[str, Any]:
    """Return the versions in force when the run starts; each prompt says itself which one it was made with."""
    names = {name for node in agents for name in (node.template, node.system) if name is not None}
    found = {name: templates.current(name) for name in sorted(names)}
    return {
        name: {"key": version.key.text, "sha256": version.content_hash} if version is not None else None
        for name, version in found.items()
    }
