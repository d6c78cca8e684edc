"""The values a run is given, checked against the inputs that its workflow declares."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sapwood.core.canonical import canonical_json
from sapwood.core.mistakes import unknown_name
from sapwood.core.workflow import Input, Workflow
from sapwood.errors import InvalidInputs, NotCanonical

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list, tuple),
    "object": (dict,),
}


def type_problem(kind: str, value: Any) -> str | None:
    """Return why `value` is not of this type, or None."""
    is_truth_for_number = isinstance(value, bool) and kind != "boolean"
    if isinstance(value, _TYPES[kind]) and not is_truth_for_number:
        return None
    return f"{type(value).__name__}, expected {kind}"


def resolve_inputs(workflow: Workflow, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value for every input; raise InvalidInputs that names all that do not fit."""
    known = {one.name: one for one in workflow.inputs}
    problems = ["; ".join(unknown_name("input", name, known)) for name in given if name not in known]
    values: dict[str, Any] = {}
    for name, one in known.items():
        if name not in given:
            values[name] = one.default
            if one.required:
                problems.append(f"{name} is required" + (f" ({one.description})" if one.description else ""))
            continue
        values[name] = given[name]
        why = type_problem(one.type, given[name]) or _not_json(given[name])
        if why:
            problems.append(f"{name} is {why}")
    if problems:
        raise InvalidInputs(workflow.name, problems)
    return values


def read_input(one: Input, text: str) -> Any:
    """Return the value that `text` stands for on a command line: text as it is, every other type as JSON."""
    if one.type == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text  # resolve_inputs says what type was expected


def _not_json(value: Any) -> str | None:
    try:
        canonical_json(value)
    except NotCanonical as error:
        return str(error)
    return None


def goal_of(inputs: Mapping[str, Any]) -> str:
    """Return what a run was started for, as far as its inputs say so."""
    given = [inputs.get(name) for name in ("goal", "task", "topic")]
    return next((text for text in given if isinstance(text, str)), "")
