"""A small store with a bit of everything in it, and all that its readers could be told."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import apsw

import sapwood
from sapwood.app import open_store
from sapwood.ports import Claim
from sapwood.runtime.run import Run

TEMPLATE_ID = "tpl.agent.crash.prompt"
TEMPLATE = "Token {{ token }}: {{ filler }}\n"


class Built(NamedTuple):
    """The runs of a store and the head of each, as its owner wrote them down somewhere else."""

    heads: dict[str, str]
    open_run: str


def build_store(path: Path) -> Built:
    """Record two sealed runs and one that nobody ends; leave one file without a log."""
    heads: dict[str, str] = {}
    with sapwood.open(path) as store:
        store.templates.register(TEMPLATE_ID, TEMPLATE, variables=["token", "filler"])
        for number in range(3):
            run = store.record(config={"models": {"name": "m"}}, inputs={"number": number})
            _record(run, number)
            store.recorder.append([], claims=[Claim(run.key, "pick", 1, 1, "Report", run.key)])
            if number < 2:
                run.complete()
                heads[run.key.text] = store.verify(run.key).head
        store.flush()
    assert not Path(f"{path}-wal").exists()
    return Built(heads, run.key.text)


def _record(run: Run, number: int) -> None:
    with run.agent("pick", request={"number": number}) as agent:
        parts = [sapwood.Contribution(name="map", text="a map", order=1)]
        agent.prompt(TEMPLATE_ID, args={"token": number, "filler": "f" * 100}, contributions=parts)
        agent.tool_call("grep", input={"large": "0123456789" * 3500}, output=[1, 2])
        with agent.agent("below") as below:
            below.report(f"# Report {number}", content_type="markdown")
        agent.note(f"note {number}")
    run.outcome("tests", passed=True, evidence={"number": number})


def read_everything(path: Path, built: Built) -> dict[str, Any]:
    """Return all that this package tells of the store, as plain values that can be compared."""
    told: dict[str, Any] = {}
    with open_store(path, create=False) as store:
        told["runs"] = [tuple(row) for row in store.runs()]
        told["templates"] = list(store.artifacts.list_versions())
        with store.artifacts.read() as reader:
            told["artifacts"] = list(reader.load())
            told["found"] = [reader.find(record.key) for record in told["artifacts"]]
            told["outline"] = list(reader.outline())
            told["glances"] = list(reader.glance(sapwood.ArtifactKey(built.open_run)))
            told["timeline"] = list(reader.timeline_keys(sapwood.ArtifactKey(built.open_run)))
            told["kinds"] = list(reader.load_kinds(None, ["Report", "Note", "Execution"]))
            for run in (*built.heads, built.open_run):
                key = sapwood.ArtifactKey(run)
                told[f"claims {run}"] = reader.list_claims(key)
                told[f"children {run}"] = list(reader.child_keys(key))
                told[f"first level {run}"] = list(reader.glance(key, depth=1))
                told[f"last {run}"] = reader.last_key(key)
                told[f"count {run}"] = reader.count(key)
                told[f"row {run}"] = reader.find_run(key)
    return told


def read_view(path: Path) -> list[tuple[Any, ...]]:
    """Return what a reader without this package gets of the reports."""
    connection = apsw.Connection(str(path))
    try:
        return sorted(connection.execute("select * from phase_artifacts"), key=repr)
    finally:
        connection.close()


def copy_store(source: Path, target: Path) -> Path:
    for end in ("", "-wal", "-shm"):
        Path(f"{target}{end}").unlink(missing_ok=True)
    shutil.rmtree(f"{target}-spool", ignore_errors=True)
    shutil.copyfile(source, target)
    return target
