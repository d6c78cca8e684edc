"""What the commands that run things share: a runner over the project's store, and inputs from a command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.core.inputs import read_input
from sapwood.core.workflow import Workflow
from sapwood.errors import InvalidInput, InvalidInputs, InvalidSettings, plain_words
from sapwood.settings import Settings

if TYPE_CHECKING:
    from sapwood.app.runner import Runner


@contextmanager
def opened_runner(settings: Settings, *, create: bool) -> Iterator[Runner]:
    """Open the project's store and a runner over it; both are closed at the end, runs that still run left whole."""
    from sapwood.app import open_store
    from sapwood.app.project import existing_project, open_project_store
    from sapwood.app.runner import Runner

    existing_project(settings)
    path = settings.store_path
    with (
        open_project_store(path) if create else open_store(path, create=False) as store,
        Runner(store, settings) as runner,
    ):
        yield runner


def settings_of(**flags: Any) -> Settings:
    """Return the settings, with the flags that were given over everything else."""
    return Settings.read({name: value for name, value in flags.items() if value not in (None, {})}, os.environ)


Refuse = Callable[[str], InvalidInput]


def read_pairs(pairs: Sequence[str], what: str, refuse: Refuse) -> dict[str, str]:
    """Return NAME=VALUE as a mapping; a value `@file` is that file's text."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise refuse(f"{pair!r} is no {what}; expected NAME=VALUE")
        found[name] = _file_text(name, value[1:], refuse) if value.startswith("@") else value
    return found


def read_inputs(workflow: Workflow, pairs: Sequence[str], file: str | None) -> dict[str, Any]:
    """Return the inputs of a file, with those of the command line over them, each of the type that is declared."""
    given = dict(_inputs_file(workflow, file)) if file else {}
    declared = {one.name: one for one in workflow.inputs}
    for name, text in read_pairs(pairs, "input", lambda why: InvalidInputs(workflow.name, [why])).items():
        given[name] = read_input(declared[name], text) if name in declared else text
    return given


def read_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Return a provider's options: each value is JSON when it can be read as such, else text."""
    given = read_pairs(pairs, "option", lambda why: InvalidSettings("--option", why))
    return {name: _json_or_text(text) for name, text in given.items()}


def _inputs_file(workflow: Workflow, file: str) -> Mapping[str, Any]:
    import yaml  # JSON is YAML too

    try:
        data = yaml.safe_load(Path(file).read_bytes())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InvalidInputs(workflow.name, [f"{file} cannot be read: {_why(error)}"]) from None
    if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
        raise InvalidInputs(workflow.name, [f"{file} holds no names and values"])
    return data


def _file_text(name: str, file: str, refuse: Refuse) -> str:
    try:
        return Path(file).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise refuse(f"{name}: {file} cannot be read: {_why(error)}") from None


def _why(error: Exception) -> str:
    place = getattr(error, "problem_mark", None)  # of YAML
    if place is not None:
        return f"line {place.line + 1}, column {place.column + 1}: {getattr(error, 'problem', None) or 'not YAML'}"
    return plain_words(error)


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
