"""What `verify` finds, and what it calls a failure."""

from __future__ import annotations

from pathlib import Path

import sapwood
from sapwood.core.artifacts import Note


def test_an_artifact_whose_parent_never_came_is_found_and_is_no_failure(tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db") as store:
        with store.record() as run, run.agent("a") as agent:
            note = Note(store.keys.child(agent.child_key()), text="lost", content_type="text")
            store.publish(note)
        verification = store.verify(run.key)
        assert [(finding.code, finding.key) for finding in verification.findings] == [("orphan", note.key)]
        assert verification.is_ok
        assert store.verify(note.key).findings == (), "nobody asked for what stands above it"


def test_what_an_open_agent_has_said_waits_for_its_result_and_is_no_orphan(tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db") as store:
        agent = store.record().agent("a")
        agent.report("said before the result is written")
        agent.flush()
        assert store.verify(agent.key.root).findings == ()
