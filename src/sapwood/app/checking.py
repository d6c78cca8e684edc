"""A workflow as it would run in a project, checked without a store: nothing is recorded and nothing is written."""

from __future__ import annotations

import os
from collections.abc import Iterable

from sapwood.app import MEMORY, load_templates, open_store
from sapwood.app.project import existing_project
from sapwood.app.runner import known_here, usual_provider
from sapwood.core.context_preview import ContextPreview, named, preview_context
from sapwood.core.handoff import HandoffPolicy
from sapwood.core.mistakes import unknown_name
from sapwood.core.nested import all_keys, find_node
from sapwood.core.workflow import AgentNode, Workflow
from sapwood.errors import NotFound
from sapwood.runtime.contextview import changed_policy
from sapwood.runtime.run_config import RunPolicies
from sapwood.settings import Settings
from sapwood.workflows.load import load_workflow


def preview_here(path_or_name: str, node: str, project: str, changes: Iterable[str] = ()) -> ContextPreview:
    """Return what a node of the workflow would get; `changes` are bounds such as `max_context_chars_total=16000`."""
    settings = Settings.read({"project": project}, os.environ)
    workflow = check_here(path_or_name, project)
    found = find_node(workflow, node)
    if found is None:
        raise NotFound(f"node {node} in {path_or_name}", unknown_name("node", node, list(all_keys(workflow)))[1])
    home, chosen = found
    policies = RunPolicies(settings.handoff, settings.phases)
    policy = changed_policy(HandoffPolicy(**{**policies.handoff, **chosen.context.policy}), changes)
    phase = chosen.phase if isinstance(chosen, AgentNode) else None
    manifest = None if phase is None else policies.manifest(phase, home)
    return named(preview_context(home, chosen, policy, manifest), node)


def check_here(path_or_name: str, project: str) -> Workflow:
    """Return the workflow; raise InvalidWorkflow with every mistake, NotFound when there is none."""
    settings = Settings.read({"project": project}, os.environ)
    existing_project(settings)
    with open_store(MEMORY) as store:
        known = known_here(load_templates(store, settings.project, settings.template_roots), store)
    return load_workflow(path_or_name, known, usual_provider(settings))
