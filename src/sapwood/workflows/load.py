"""A path or the name of a built-in workflow -> Workflow, or InvalidWorkflow with every mistake and its place."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any, Final

from sapwood.core.mistakes import Mistake, Problem, unknown_name
from sapwood.core.workflow import Workflow, with_source, workflow_to_dict
from sapwood.core.workflow_build import NOBODY_SAID, Usual, build_workflow
from sapwood.core.workflow_check import NOTHING_KNOWN, Known, check_workflow
from sapwood.core.workflow_fields import WORKFLOW
from sapwood.errors import InvalidWorkflow, NotFound, plain_words
from sapwood.workflows.read import ABSENT, Reader
from sapwood.workflows.source import MAX_FILE_BYTES, NotReadable, parse_source

MAX_NESTED: Final = 8
BUILT_IN: Final = resources.files("sapwood.workflows") / "builtin"


def builtin_names() -> list[str]:
    """Return the names of the workflows that come with the package."""
    return sorted(item.name.removesuffix(".yaml") for item in BUILT_IN.iterdir() if item.name.endswith(".yaml"))


def load_workflow(path_or_name: str | Path, known: Known = NOTHING_KNOWN, usual: Usual = NOBODY_SAID) -> Workflow:
    """Load a workflow file, or a built-in one by its name. A file of that name in the way needs a `./` or a suffix."""
    return _load(str(path_or_name), Path(), (), known, usual)


def parse_workflow(
    text: str, file: str = "<text>", known: Known = NOTHING_KNOWN, usual: Usual = NOBODY_SAID
) -> Workflow:
    """Check the text of a workflow file as a whole; raise InvalidWorkflow with all mistakes."""
    return _parse(text, file, Path(), (file,), known, usual)


def _load(name: str, folder: Path, outer: tuple[str, ...], known: Known, usual: Usual) -> Workflow:
    if name in builtin_names():
        return _parse((BUILT_IN / f"{name}.yaml").read_text("utf-8"), name, folder, (*outer, name), known, usual)
    path = folder / name
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        text = content.decode("utf-8-sig")
    except IsADirectoryError:
        raise NotFound(f"workflow {name}", "there is a folder of that name; a file is expected") from None
    except (FileNotFoundError, NotADirectoryError):
        hint = f"no such file, and no built-in workflow; {unknown_name('workflow', name, builtin_names())[1]}"
        raise NotFound(f"workflow {name}", hint) from None
    except (OSError, ValueError) as error:
        raise InvalidWorkflow(name, [Mistake(name, 1, 1, f"the file cannot be read: {plain_words(error)}")]) from None
    return _parse(text, str(path), path.parent, (*outer, str(path.resolve())), known, usual)


def _parse(text: str, file: str, folder: Path, outer: tuple[str, ...], known: Known, usual: Usual) -> Workflow:
    try:
        source, mistakes = parse_source(text, file)
    except NotReadable as error:
        raise InvalidWorkflow(file, [error.mistake]) from None
    reader = Reader(file)
    data: Any = reader.read(WORKFLOW, source)
    workflows: dict[str, Workflow] = {}
    if data is not ABSENT:
        workflows = _nested(data, reader, folder, outer, known, usual)
        here = known._replace(usual=usual)
        for problem in check_workflow(data, workflows, here, has_all_edges=reader.is_whole("edges")):
            reader.note(problem)
    if mistakes or reader.mistakes:
        found: list[Mistake] = list(dict.fromkeys([*mistakes, *reader.mistakes]))
        found.sort(key=lambda one: (one.line, one.column))
        raise InvalidWorkflow(file, found)
    graphs = {name: workflow_to_dict(inner) for name, inner in workflows.items()}
    return with_source(build_workflow(data, graphs, usual), text)


def _nested(
    data: Any, reader: Reader, folder: Path, outer: tuple[str, ...], known: Known, usual: Usual
) -> dict[str, Workflow]:
    """Load the workflows that nodes of this file run; one that cannot be used is a mistake of this file."""
    found: dict[str, Workflow] = {}
    for key, node in data.get("nodes", {}).items():
        if not isinstance(node, dict):
            continue
        path: tuple[str, ...] = ("nodes", key, "workflow")
        if node.get("kind") == "spawn" and isinstance(node.get("each"), dict):
            node, path = node["each"], ("nodes", key, "each", "workflow")
        name = node.get("workflow")
        if node.get("kind") != "workflow" or name is None or name in found:
            continue
        if str((folder / name).resolve()) in outer or name in outer:
            reader.note(Problem(path, f"the workflow {name!r} runs itself", "a workflow cannot contain itself"))
        elif len(outer) > MAX_NESTED:
            reader.note(Problem(path, f"workflows nested more than {MAX_NESTED} deep"))
        else:
            try:
                found[name] = _load(name, folder, outer, known, usual)
            except (InvalidWorkflow, NotFound) as error:
                reader.note(Problem(path, f"the workflow {name!r} cannot be used: {error}"))
    return found
