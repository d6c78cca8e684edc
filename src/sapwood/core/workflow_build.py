"""The checked plain data of a workflow file -> Workflow, with the defaults applied to every node they fit."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from sapwood.core.workflow import Workflow
from sapwood.core.workflow_fields import NODE_KINDS


class Usual(NamedTuple):
    """Who answers for the agents of files that name nobody, and what that provider is told besides."""

    provider: str = "scripted"
    options: Mapping[str, Any] = MappingProxyType({})


NOBODY_SAID: Final = Usual()


def build_workflow(data: Mapping[str, Any], workflows: Mapping[str, Any], usual: Usual = NOBODY_SAID) -> Workflow:
    """Return the Workflow of data in which `check_workflow` found nothing; `workflows` as plain data, by name."""
    defaults = data.get("defaults", {})
    whole = {
        **{name: value for name, value in data.items() if name not in ("defaults", "inputs", "nodes", "edges")},
        "inputs": [{"name": name, **spec} for name, spec in data.get("inputs", {}).items()],
        "nodes": [_node(key, node, defaults, workflows, usual) for key, node in data["nodes"].items()],
        "edges": [_edge(edge) for edge in data.get("edges", [])],
    }
    return msgspec.convert(whole, Workflow)


def agent_options(
    node: Mapping[str, Any], defaults: Mapping[str, Any], usual: Usual = NOBODY_SAID
) -> tuple[str, dict[str, Any]]:
    """Return who answers for an agent node, and all that provider is told; a node's own options win."""
    provider = node.get("provider", defaults.get("provider", usual.provider))
    theirs = usual.options if provider == usual.provider else {}
    return provider, {**theirs, **defaults.get("options", {}), **node.get("options", {})}


def _node(
    key: str, node: Mapping[str, Any], defaults: Mapping[str, Any], workflows: Mapping[str, Any], usual: Usual
) -> Any:
    fields = {field.name for field in NODE_KINDS[node["kind"]].fields}
    built = {name: value for name, value in defaults.items() if name in fields} | dict(node) | {"key": key}
    for name in ("limits", "backoff", "context"):  # a node's part replaces only the fields it names
        if name in node and name in defaults:
            built[name] = {**defaults[name], **node[name]}
    if node["kind"] == "agent":
        built["provider"], built["options"] = agent_options(node, defaults, usual)
    if "output" not in node:
        built.pop("ingest", None)  # a default applies to nodes with an output
    if node["kind"] == "spawn":
        built["each"] = _node(key, node["each"], defaults, workflows, usual)
    if node["kind"] == "workflow":
        built["definition"] = workflows[node["workflow"]]
    return built


def _edge(edge: Mapping[str, Any]) -> dict[str, Any]:
    return {**edge, "when": None if edge.get("when") == "auto" else edge.get("when")}
