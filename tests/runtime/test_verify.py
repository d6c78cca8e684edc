"""What `verify` finds, and what it calls a failure."""

from __future__ import annotations

from pathlib import Path

import sapwood
from sapwood.core.artifacts import Note, RenderedPrompt


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


def test_every_prompt_is_rebuilt_also_the_last_of_what_is_read(tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db") as store, store.record() as run, run.agent("a") as agent:
        prompts = [RenderedPrompt(agent.child_key(), text="x", renderer="r", renderer_version="1") for _ in range(3)]
        for prompt in prompts:
            agent.add(prompt)
        agent.flush()
        for above, wrong in ((run.key, prompts), (prompts[1].key, prompts[1:2])):
            failures = [finding for finding in store.verify(above).findings if finding.is_failure]
            assert {finding.key for finding in failures} == {prompt.key for prompt in wrong}
