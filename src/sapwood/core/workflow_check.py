"""The plain data of a workflow file -> everything that is wrong with it beyond the shape of its values.

Works on whatever could be read, so that one mistake does not hide the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sapwood.core.graph import descendants, find_cycle, forward_order
from sapwood.core.guards import parse_guard
from sapwood.core.handoff import BOUNDS
from sapwood.core.inputs import type_problem
from sapwood.core.mistakes import Path, Problem, unknown_name
from sapwood.core.nodekey import MAX_NODE_KEY_CHARS
from sapwood.core.outputs import output_problem
from sapwood.core.phases import resolve_manifest
from sapwood.core.substitution import references
from sapwood.core.template import TemplateId
from sapwood.core.workflow import Workflow
from sapwood.core.workflow_build import NOBODY_SAID, Usual, agent_options
from sapwood.errors import InvalidGuard, SapwoodError

Data = Mapping[str, Any]

_SUBSTITUTED = ("args", "options", "run", "env", "cwd", "content", "ask", "inputs", "items")


class Known(NamedTuple):
    """What there is where a workflow is to run; None: not known, so nothing is said about it.

    `templates` are the ids with the names of their arguments, `refused` those that cannot be used, and why. `options`
    tells what is wrong with the options of a provider, each at its place among them. `usual` answers where nobody is
    named.
    """

    providers: Collection[str] | None = None
    templates: Mapping[str, Collection[str]] | None = None
    refused: Mapping[str, str] = MappingProxyType({})
    options: Callable[[str, Data], Iterable[Problem]] = lambda _provider, _options: ()
    usual: Usual = NOBODY_SAID


NOTHING_KNOWN: Final = Known()


def check_workflow(
    data: Data,
    workflows: Mapping[str, Workflow],
    known: Known = NOTHING_KNOWN,
    *,
    has_all_edges: bool = True,
) -> list[Problem]:
    """Return every problem of a file. `workflows` are those its workflow nodes name, by that name.

    Without `has_all_edges` some edge could not be read, and nothing is said about the graph as a whole.
    """
    nodes = {key: node for key, node in data.get("nodes", {}).items() if isinstance(node, Mapping)}
    return [
        *_inputs(data.get("inputs", {})),
        *_phases(data.get("phases", {})),
        *_block(("defaults",), data.get("defaults", {}), known),
        *(p for key, node in nodes.items() for p in _node(("nodes", key), node, data, workflows, known)),
        *_names(data.get("nodes", {}), nodes),
        *_edges(data, list(data.get("nodes", {})), has_all_edges),
    ]


def _inputs(inputs: Data) -> Iterator[Problem]:
    for name, spec in inputs.items():
        if not isinstance(spec, Mapping) or "default" not in spec:
            continue
        path: Path = ("inputs", name, "default")
        if spec.get("required"):
            yield Problem(path, f"input {name!r} is required and has a default", "leave one of the two out")
        why = type_problem(spec.get("type", "string"), spec["default"])
        if why and spec["default"] is not None:
            yield Problem(path, f"the default of input {name!r} is {why}")


def _phases(phases: Data) -> Iterator[Problem]:
    for phase, override in phases.items():
        try:
            resolve_manifest(int(phase), dict(override))
        except SapwoodError as error:
            yield Problem(("phases", phase), str(error))


def _block(path: Path, node: Data, known: Known) -> Iterator[Problem]:
    """Check what nodes and the defaults have in common."""
    for field in ("template", "system"):
        if field in node:
            try:
                TemplateId(node[field])
            except SapwoodError as error:
                yield Problem((*path, field), str(error))
            else:
                yield from _template((*path, field), node[field], known)
    if known.providers is not None and "provider" in node and node["provider"] not in known.providers:
        yield Problem((*path, "provider"), *unknown_name("provider", node["provider"], known.providers))
    for name in node.get("context", {}).get("policy", {}):
        if name not in BOUNDS:
            yield Problem((*path, "context", "policy", name), *unknown_name("number", name, BOUNDS), at_key=True)


def _template(path: Path, template: str, known: Known) -> Iterator[Problem]:
    if known.templates is None or template in known.templates:
        return
    if template in known.refused:
        yield Problem(path, f"the template {template} cannot be used: {known.refused[template]}")
    else:
        yield Problem(path, *unknown_name("template", template, known.templates))


def _arguments(path: Path, node: Data, known: Known) -> Iterator[Problem]:
    """Check the names of a node's arguments; which of them may be left out only the template knows."""
    variables = (known.templates or {}).get(node.get("template", ""))
    if variables is None:
        return
    for name in node.get("args", {}):
        if name not in variables:
            what = f"argument of {node['template']}"
            yield Problem((*path, "args", name), *unknown_name(what, name, variables), at_key=True)


def _options(path: Path, node: Data, defaults: Data, known: Known) -> Iterator[Problem]:
    """Check what an agent's provider is told, wherever it was written; a value that is still to come is not judged."""
    if node.get("kind") != "agent":
        return
    provider, options = agent_options(node, defaults, known.usual)
    for problem in known.options(provider, options):
        name = problem.path[0]
        value = options.get(str(name))
        if not problem.at_key and isinstance(value, str) and "${" in value:
            continue
        what = f"provider {provider}: {problem.what}"
        if name in node.get("options", {}):
            yield Problem((*path, "options", name), what, problem.allowed, at_key=problem.at_key)
        elif name in defaults.get("options", {}):
            yield Problem(("defaults", "options", name), what, problem.allowed, at_key=problem.at_key)
        else:
            yield Problem(path, what, problem.allowed, at_key=True)


def _node(
    path: Path,
    node: Data,
    data: Data,
    workflows: Mapping[str, Workflow],
    known: Known,
    child: bool = False,
) -> Iterator[Problem]:
    yield from _block(path, node, known)
    yield from _arguments(path, node, known)
    yield from _options(path, node, data.get("defaults", {}), known)
    yield from _document(path, node, child)
    yield from _references(path, node, data.get("inputs", {}), child)
    kind = node.get("kind")
    if "source" in node and node["source"] not in data.get("nodes", {}):
        yield Problem((*path, "source"), *unknown_name("node", node["source"], data.get("nodes", {})))
    if kind == "write_file" and ("content" in node) == ("source" in node):
        yield Problem(path, "a write_file node needs exactly one of content and source", at_key=True)
    if kind == "spawn":
        items = node.get("items", "report.items")
        if isinstance(items, str) and items.split(".")[0] not in ("report", "inputs"):
            yield Problem((*path, "items"), f"{items[:80]!r} is no place of a list", "expected report.… or inputs.…")
        if isinstance(node.get("each"), Mapping):
            yield from _node((*path, "each"), node["each"], data, workflows, known, child=True)
    if kind == "workflow" and node.get("workflow") in workflows:
        yield from _nested(path, node, workflows[node["workflow"]])


def _document(path: Path, node: Data, child: bool) -> Iterator[Problem]:
    output = node.get("output")
    if node.get("ingest") and output is None:
        yield Problem((*path, "ingest"), "ingest: true on a node without an output", "give it an output below docs/")
    if output is None:
        return
    placeholders = ("run", "n", "name") if child else ("run", "n")
    why = output_problem(output, placeholders)
    if why:
        names = ", ".join(f"<{name}>" for name in placeholders)
        yield Problem((*path, "output"), f"output {output[:80]!r}: {why}", f"expected docs/… or audits/… with {names}")
    elif child and "<name>" not in output:
        yield Problem((*path, "output"), "every child of the spawn would write the same document", "put <name> in it")


def _references(path: Path, node: Data, inputs: Data, child: bool) -> Iterator[Problem]:
    for field in _SUBSTITUTED:
        value = node.get(field)
        if field == "items" and not isinstance(value, list):
            continue
        for place, item in _texts((*path, field), value):
            for reference in references(item):
                yield from _reference(place, reference, inputs, child)


def _reference(place: Path, reference: tuple[str, ...], inputs: Data, child: bool) -> Iterator[Problem]:
    if not reference:
        yield Problem(place, "a malformed ${…}", "expected ${inputs.name}; write $${ for a literal ${")
    elif reference[0] != "inputs":
        if not child:
            yield Problem(place, f"${{{reference[0]}}} means something only inside each of a spawn node")
    elif len(reference) < 2 or reference[1] not in inputs:
        yield Problem(place, *unknown_name("input", ".".join(reference[1:2]), inputs))


def _texts(path: Path, value: Any) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts((*path, key), item)
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from _texts((*path, place), item)


def _nested(path: Path, node: Data, inner: Workflow) -> Iterator[Problem]:
    known = {one.name: one for one in inner.inputs}
    given = node.get("inputs", {})
    for name in given:
        if name not in known:
            yield Problem((*path, "inputs", name), *unknown_name(f"input of {inner.name}", name, known), at_key=True)
    for name, one in known.items():
        if one.required and name not in given:
            yield Problem(path, f"the workflow {inner.name!r} needs the input {name!r}", at_key=True)
    key = str(path[1])
    for one_node in inner.nodes:
        whole = f"{key}.{one_node.key}"
        if len(whole) > MAX_NODE_KEY_CHARS:
            what = f"the key {whole} would be longer than {MAX_NODE_KEY_CHARS} characters"
            yield Problem(path, what, at_key=True)


def _names(all_keys: Collection[str], nodes: Mapping[str, Data]) -> Iterator[Problem]:
    parents = [key for key, node in nodes.items() if node.get("kind") in ("spawn", "workflow")]
    for key in all_keys:
        for parent in parents:
            if key.startswith(f"{parent}."):
                what = f"{key!r} could be taken for a child of {parent!r}"
                yield Problem(("nodes", key), what, f"no other key may begin with {parent + '.'!r}", at_key=True)


def _edges(data: Data, keys: list[str], has_all_edges: bool) -> Iterator[Problem]:
    edges: list[Any] = data.get("edges", [])
    whole: dict[int, Data] = {}
    for place, edge in enumerate(edges):
        if not isinstance(edge, Mapping):
            continue
        unknown = [end for end in ("from", "to") if end in edge and edge[end] not in keys]
        for end in unknown:
            yield Problem(("edges", place, end), *unknown_name("node", edge[end], keys))
        if "from" in edge and "to" in edge and not unknown:
            whole[place] = edge
        yield from _guard(("edges", place, "when"), edge.get("when"), data.get("inputs", {}))
    if has_all_edges and len(whole) == len(edges):  # with an edge missing, the picture would be wrong
        yield from _repeated(whole)
        yield from _never_asked(whole, data.get("nodes", {}))
        yield from _shape(whole, keys)


def _guard(path: Path, when: Any, inputs: Data) -> Iterator[Problem]:
    if not isinstance(when, str) or when == "auto":
        return
    try:
        guard = parse_guard(when)
    except InvalidGuard as error:
        yield Problem(path, f"guard: {error.why}", f"at character {error.position} of the guard", error.position - 1)
        return
    for field in guard.fields:
        if field[0] == "inputs" and (len(field) < 2 or field[1] not in inputs):
            yield Problem(path, *unknown_name("input", str(field[1]) if len(field) > 1 else "", inputs))


def _repeated(edges: Mapping[int, Data]) -> Iterator[Problem]:
    seen: dict[tuple[Any, ...], int] = {}
    for place, edge in edges.items():
        same = (edge["from"], edge["to"], edge.get("on", "success"), edge.get("when"))
        if same in seen:
            yield Problem(("edges", place), f"the same edge as number {seen[same] + 1}", "leave one of them out")
        seen.setdefault(same, place)


def _never_asked(edges: Mapping[int, Data], nodes: Data) -> Iterator[Problem]:
    """Find edges behind one that always matches: with `select: first` nothing can ever select them."""
    order = sorted(edges, key=lambda place: (edges[place].get("priority", 0), place))
    for at, place in enumerate(order):
        edge = edges[place]
        node = nodes.get(edge["from"])
        if isinstance(node, Mapping) and node.get("select") == "all":
            continue
        for earlier in order[:at]:
            first = edges[earlier]
            covers = first.get("on", "success") in ("terminal", edge.get("on", "success"))
            is_free = first.get("when", "auto") == "auto" and "max_loops" not in first
            if first["from"] == edge["from"] and covers and is_free:
                what = f"this edge can never be selected: the one to {first['to']!r} always comes first"
                yield Problem(("edges", place), what, "give that one a guard, or say select: all on the node")
                break


def _shape(edges: Mapping[int, Data], keys: list[str]) -> Iterator[Problem]:
    forward = [(edge["from"], edge["to"]) for edge in edges.values() if "max_loops" not in edge]
    cycle = find_cycle(keys, forward)
    if cycle:
        ends = [(a, b) for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True)]
        closing = max(place for place, edge in edges.items() if (edge["from"], edge["to"]) in ends)
        way = " -> ".join([*cycle, cycle[0]])
        yield Problem(
            ("edges", closing), f"a loop without a bound: {way}", "give max_loops to the edge that leads back"
        )
        return
    reach = descendants(forward_order(keys, forward), forward)
    for place, edge in edges.items():
        if "max_loops" in edge and edge["from"] not in reach[edge["to"]]:
            what = f"max_loops on an edge that does not lead back: {edge['to']!r} does not lead to {edge['from']!r}"
            yield Problem(("edges", place, "max_loops"), what, "leave max_loops out")
    connected = {end for edge in edges.values() for end in (edge["from"], edge["to"])}
    for key in keys:
        if len(keys) > 1 and key not in connected:
            yield Problem(("nodes", key), f"node {key!r} is not connected: no edge leads to it or from it", at_key=True)
