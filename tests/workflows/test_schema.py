"""The JSON Schema that editors use says what the reader says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from sapwood.core.workflow_schema import workflow_schema
from sapwood.workflows.load import BUILT_IN, builtin_names

FILE = Path(__file__).parents[2] / "docs" / "schema" / "workflow.json"
GOOD = (Path(__file__).parent / "feature.yaml").read_text()


def load(text: str) -> Any:
    """Read a file the way an editor does: names are texts, and `on` is a word (YAML 1.2)."""
    return json.loads(json.dumps(yaml.safe_load(text.replace(" on: ", ' "on": '))))


def test_the_stored_schema_is_the_one_the_table_gives() -> None:
    made = json.dumps(workflow_schema(), indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("SAPWOOD_WRITE_GOLDEN") == "1":
        FILE.write_text(made)
    assert FILE.read_text() == made


@pytest.mark.parametrize(
    "text",
    [GOOD, *((BUILT_IN / f"{name}.yaml").read_text() for name in builtin_names())],
    ids=["feature", *builtin_names()],
)
def test_good_files_fit(text: str) -> None:
    jsonschema.Draft202012Validator(workflow_schema()).validate(load(text))


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("kind: gate", "kind: gat"),
        ("attempts: 2", "attempts: 0"),
        ("attempts: 2", "attempts: two"),
        ("select: all", "select: some"),
        ("{kind: gate, ask", "{kind: gate, aks"),
        ("max_loops: 3", "max_loops: true"),
        ("  review:", "  re view:"),
        ("name: feature\n", ""),
        ("evidence: tests", "evidence: luck"),
    ],
    ids=["kind", "range", "type", "choice", "name", "truth", "key", "missing", "evidence"],
)
def test_bad_files_do_not_fit(good: str, bad: str) -> None:
    assert good in GOOD
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(workflow_schema()).validate(load(GOOD.replace(good, bad, 1)))
