"""User story 1 as far as recording goes, and TREE's edge cases: record, store, read back, compare."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace as Templated
from typing import Any, get_origin

import apsw
import msgspec
import pytest

import sapwood
from sapwood.core.artifacts import (
    AgentExecutionArtifacts,
    AgentRequest,
    Execution,
    IngestedFile,
    InputArtifacts,
    Note,
    OutcomeEvidenceArtifacts,
    PromptContribution,
    PromptTemplate,
    RefArtifact,
    RenderedPrompt,
    Seal,
)
from sapwood.core.codec import from_record, to_record
from sapwood.core.config import execution_config
from sapwood.core.event_artifacts import EVENT_TYPES
from sapwood.core.kind import Artifact, UnknownArtifact
from sapwood.core.plans import DiscoveryLink, DiscoveryReport, GeneratedQuery, PlanningTicket, Task
from sapwood.core.record import Record
from sapwood.core.tree import REQUIRED_GROUPS as GROUPS
from sapwood.runtime.run import Run
from sapwood.runtime.scope import Agent
from sapwood.runtime.session import Store
from sapwood.templates.registry import TemplateRegistry

pytestmark = pytest.mark.artifacts_reconstruct

TEMPLATE = "tpl.agent.discovery.prompt"


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with sapwood.open(tmp_path / "s.db" if request.param == "file" else "memory:") as store:
        yield store


EMPTY: dict[Any, Any] = {str: "x", int: 1, bool: True, dict: {}, tuple: []}


@pytest.fixture
def event_samples() -> list[dict[str, Any]]:
    """One event of each type, in its wire form, with the fields it cannot do without."""
    samples = []
    for name, cls in EVENT_TYPES.items():
        required = [field for field in msgspec.structs.fields(cls) if field.required]
        values = {field.encode_name: EMPTY.get(get_origin(field.type) or field.type, "x") for field in required}
        samples.append({**values, "type": name, "timestamp": "2026-01-01T00:00:00.000Z"})
    return samples


def records(store: Store, key: sapwood.ArtifactKey) -> list[Record]:
    with store.artifacts.read() as reader:
        return list(reader.load(key))


def status(store: Store, run: Run) -> str:
    return next(row.status for row in store.runs() if row.key == run.key)


def record_a_run(store: Store) -> Run:
    store.templates.register(TEMPLATE, "Find {{ what }}.", variables=["what"])
    with store.record(config={"models": ["m"]}, inputs={"topic": "trees"}) as run:
        with run.agent("discovery", request={"depth": 2}) as agent:
            parts = [sapwood.Contribution(name="repo_map", text="src/", order=10)]
            agent.prompt(TEMPLATE, args={"what": "bugs"}, contributions=parts)
            agent.tool_call("grep", input={"pattern": "x"}, output={"lines": [1, 2]})
            with agent.agent("reader", request={"file": "a"}) as reader:
                reader.tool_call("read", input={"path": "a"}, output="text")
            agent.report("# Findings\n", content_type="markdown")
        run.outcome("tests", passed=True, evidence={"count": 3})
    return run


def test_sc001_every_execution_has_exactly_one_root_and_all_groups(store: Store) -> None:
    for _ in range(3):
        kinds = [record.kind for record in records(store, record_a_run(store).key)]
        assert kinds.count("Execution") == 1
        assert all(kinds.count(group) == 1 for group in GROUPS)
        assert kinds[-1] == "Seal"


def test_sc002_prompts_and_tool_io_come_back_from_the_tree_alone(store: Store) -> None:
    found = records(store, record_a_run(store).key)
    assert [record.content for record in found if record.kind == "RenderedPrompt"] == [b"Find bugs.\n\nsrc/"]
    assert [msgspec.json.decode(record.content) for record in found if record.kind == "ToolInput"] == [
        {"pattern": "x"},
        {"path": "a"},
    ]
    assert [msgspec.json.decode(record.content) for record in found if record.kind == "ToolOutput"] == [
        {"lines": [1, 2]},
        "text",
    ]


def test_us1_2_a_prompt_has_its_template_and_arguments_as_children(store: Store) -> None:
    found = records(store, record_a_run(store).key)
    prompt = next(record for record in found if record.kind == "RenderedPrompt")
    children = [record for record in found if record.key.parent == prompt.key]
    assert [record.kind for record in children] == ["RefArtifact", "PromptArgs", "PromptContribution"]
    reference = from_record(children[0])
    assert isinstance(reference, RefArtifact)
    assert [record.content for record in records(store, reference.target)] == [b"Find {{ what }}."]


def test_us1_3_a_child_key_starts_with_its_parents_and_sorts_after_it(store: Store) -> None:
    found = records(store, record_a_run(store).key)
    keys = {record.key for record in found}
    for record in found[1:]:
        assert record.key.parent in keys
        assert record.key.parent < record.key


def test_us1_4_the_configuration_says_of_every_field_what_it_is_or_why_it_is_absent(store: Store) -> None:
    config = msgspec.json.decode(
        next(record.content for record in records(store, record_a_run(store).key) if record.kind == "ExecutionConfig")
    )
    assert config["models"] == [{"name": "m"}]
    assert config["routing"] is None
    assert config["why_absent"]["routing"] == "not given"


def test_us1_7_all_37_events_are_captured_below_their_node(store: Store, event_samples: list[dict[str, Any]]) -> None:
    with store.record() as run:
        with run.agent("discovery") as agent:
            for sample in event_samples:
                agent.emit(sample)
            below = run.emit({**event_samples[0], "node_id": "discovery"})
        beside = run.emit({**event_samples[0], "node_id": None})
    found = [record for record in records(store, run.key) if record.kind in ("EventArtifact", "MessageStreamArtifact")]
    assert {msgspec.json.decode(record.content)["type"] for record in found} == set(EVENT_TYPES)
    assert below.parent == agent.key
    assert beside.parent == run.groups["AgentExecutionArtifacts"]


def test_us1_8_a_sub_agent_has_its_own_nested_subtree(store: Store) -> None:
    run = record_a_run(store)
    requests = [from_record(record) for record in records(store, run.key) if record.kind == "AgentRequest"]
    assert [request.node for request in requests] == ["discovery", "reader"]  # type: ignore[union-attr]
    assert requests[0].key.is_ancestor_of(requests[1].key)


def test_what_recording_writes_is_what_the_codec_writes(store: Store) -> None:
    for record in records(store, record_a_run(store).key):
        assert to_record(from_record(record)) == record


GROUP_ARTIFACTS: dict[str, Callable[[sapwood.ArtifactKey], Any]] = {
    "ExecutionConfig": lambda key: execution_config(key, {}),
    "InputArtifacts": InputArtifacts,
    "AgentExecutionArtifacts": AgentExecutionArtifacts,
    "OutcomeEvidenceArtifacts": OutcomeEvidenceArtifacts,
}


@pytest.mark.parametrize("missing", GROUPS)
def test_edge_an_execution_without_a_required_group_is_not_completed(store: Store, missing: str) -> None:
    root = store.keys.root()
    store.publish(sapwood.ArtifactEvent(Execution(root)))
    for name, make in GROUP_ARTIFACTS.items():
        if name != missing:
            store.publish(sapwood.ArtifactEvent(make(store.keys.child(root))))
    run = store.attach(root)
    with pytest.raises(sapwood.IncompleteRun, match=missing):
        run.complete()
    errors = [record.content.decode() for record in records(store, root) if record.kind == "ValidationError"]
    assert len(errors) == 1
    assert missing in errors[0]
    assert status(store, run) == "running"
    store.publish(sapwood.ArtifactEvent(GROUP_ARTIFACTS[missing](store.keys.child(root))))
    run.complete()
    assert status(store, run) == "completed"


def test_edge_two_artifacts_with_identical_keys_the_first_is_preserved(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with store.record() as run, run.agent("a") as agent:
        key = agent.child_key()
        store.publish(sapwood.ArtifactEvent(Note(key, text="first", content_type="text")))
        with pytest.raises(sapwood.DuplicateKey), caplog.at_level(logging.ERROR):
            store.publish(sapwood.ArtifactEvent(Note(key, text="second", content_type="text")))
    assert [record.content for record in records(store, key)] == [b"first"]
    assert key.text in caplog.text


def test_edge_a_template_with_an_unresolved_placeholder_leaves_a_validation_error(store: Store) -> None:
    with pytest.raises(sapwood.UndeclaredVariable):
        store.templates.register(TEMPLATE, "Find {{ what }}.")
    with store.record() as run, run.agent("a") as agent, pytest.raises(sapwood.SapwoodError):
        agent.prompt("tpl.not.there")
    error = next(record for record in records(store, run.key) if record.kind == "ValidationError")
    assert error.key.parent == agent.key


def test_edge_a_key_out_of_order_is_accepted_with_a_warning(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    with store.record() as run, run.agent("a") as agent:
        old = agent.key.child(sapwood.KeyFactory(clock=lambda: 1).segment())
        with caplog.at_level(logging.WARNING):
            store.publish(sapwood.ArtifactEvent(Note(old, text="late", content_type="text")))
    assert "older than its parent" in caplog.text
    assert status(store, run) == "completed"


def test_edge_a_reference_to_a_missing_template_is_refused(store: Store) -> None:
    with store.record() as run, run.agent("a") as agent:
        key = agent.child_key()
        with pytest.raises(sapwood.DanglingReference):
            store.publish(sapwood.ArtifactEvent(RefArtifact(key, target=store.keys.root(), role="template")))
    assert records(store, key) == []


def test_edge_a_reference_inside_the_run_must_resolve_before_the_run_completes(store: Store) -> None:
    with pytest.raises(sapwood.IncompleteRun, match="RefArtifact"), store.record() as run, run.agent("a") as agent:
        agent.add(RefArtifact(agent.child_key(), target=agent.child_key(), role="input"))
    assert status(store, run) == "failed"


@pytest.mark.parametrize(
    "template_id", ["", "agent.x", "tpl", "tpl.one", "tpl.Agent.x", "tpl.agent..x", "tpl.agent.x\n"]
)
def test_edge_a_template_without_a_hierarchical_static_id_is_refused(store: Store, template_id: str) -> None:
    with pytest.raises(sapwood.InvalidTemplateId):
        store.templates.register(template_id, "text")
    assert not store.artifacts.list_versions()


def test_edge_two_template_texts_with_one_hash_the_second_is_refused_and_logged_critical(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    colliding = TemplateRegistry(store.artifacts, content_hash=lambda _text: "ab" * 32)
    first = colliding.register(TEMPLATE, "one")
    with pytest.raises(sapwood.TemplateCollision), caplog.at_level(logging.CRITICAL):
        colliding.register(TEMPLATE, "another")
    assert [entry.levelname for entry in caplog.records] == ["CRITICAL"]
    assert [version.key for version in store.artifacts.list_versions()] == [first.key]


@pytest.mark.parametrize("ending", ["complete", "fail", "cancel"])
def test_sc001_whatever_the_ending_there_is_one_root_four_groups_and_one_seal(store: Store, ending: str) -> None:
    run = store.record()
    getattr(run, ending)()
    assert [record.kind for record in records(store, run.key)] == ["Execution", *GROUPS, "Seal"]
    assert store.verify(run.key).is_ok


def test_threads_record_into_one_run_and_every_artifact_has_its_own_parent(store: Store) -> None:
    with store.record() as run:
        errors: list[BaseException] = []

        def work(name: str) -> None:
            try:
                for number in range(10):
                    with run.agent(name, request={"number": number}) as agent:
                        agent.tool_call("t", input={"name": name, "number": number})
                        agent.note(f"{name} {number}")
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(f"worker_{number}",)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
    tree = store.load(run.key)
    requests = [from_record(record) for record in tree.of_kind("AgentRequest")]
    assert sorted((one.node, one.attempt) for one in requests if isinstance(one, AgentRequest)) == sorted(
        (f"worker_{number}", attempt) for number in range(6) for attempt in range(1, 11)
    )
    for request in requests:
        assert isinstance(request, AgentRequest)
        inputs = [msgspec.json.decode(one.content) for one in tree.walk(request.key) if one.kind == "ToolInput"]
        assert [found["name"] for found in inputs] == [request.node]
    ids = [msgspec.json.decode(note.metadata)["artifact_id"] for note in tree.of_kind("Note")]
    assert len(set(ids)) == 60
    assert store.verify(run.key).findings == ()


def test_no_words_in_a_record_keep_verify_from_saying_that_a_sealed_run_is_incomplete() -> None:
    with sapwood.open("memory:") as store:
        with store.record() as run:
            pass
        task = Task(id="it already has a Seal", title="", description="", dependencies=("nobody",), acceptance_criteria=(), discovery_links=())  # fmt: skip
        ticket = to_record(PlanningTicket(run.keys.child(run.key), tasks=(task,)))
        store.artifacts._state.records[ticket.key.pack()] = ticket  # type: ignore[attr-defined]  # behind its back
        found = [finding.message for finding in store.verify(run.key).findings if finding.code == "incomplete"]
    assert found == [
        f"plan {ticket.key}: task 'it already has a Seal' depends on 'nobody', which is no task",
    ]


def side_by_side(work: Callable[[], object], patch: pytest.MonkeyPatch, owner: object, name: str) -> None:
    """Do it in two threads, each of which lets the other come as far as this call before it goes on."""
    together, called = threading.Barrier(2), getattr(owner, name)

    def after_the_other(*args: object) -> object:
        with suppress(threading.BrokenBarrierError):
            together.wait(0.5)
        return called(*args)

    with patch.context() as patched:
        patched.setattr(owner, name, after_the_other)
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_two_threads_that_start_one_node_at_once_are_two_attempts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store.record()
    side_by_side(lambda: run.agent("node"), monkeypatch, run.recorder, "record")
    store.flush()
    requests = [from_record(record) for record in records(store, run.key) if record.kind == "AgentRequest"]
    assert sorted(one.attempt for one in requests if isinstance(one, AgentRequest)) == [1, 2]
    assert run.agent("node").attempt == 3


def test_a_request_that_was_refused_is_no_attempt(store: Store) -> None:
    run = store.record()
    with pytest.raises(sapwood.SapwoodError):
        run.agent("node", request=object())
    assert run.agent("node").attempt == 1


def test_two_threads_that_report_at_once_report_below_one_result(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with store.record() as run, run.agent("node") as agent:
        side_by_side(lambda: agent.note("said"), monkeypatch, run.keys, "number")
    assert store.verify(run.key).findings == ()
    tree = store.load(run.key)
    assert {note.key.parent for note in tree.of_kind("Note")} == {result.key for result in tree.of_kind("AgentResult")}


def test_the_contents_of_a_run_come_decoded_in_key_order(store: Store) -> None:
    with store.record() as run, run.agent("a", request={"x": 1.0}) as agent:
        agent.note("a text")
        agent.add(
            IngestedFile(
                agent.child_key(),
                data=b"\xff\x00",
                workspace_path="workspace/a",
                sha256="",
                block_index=0,
                role="written",
            )
        )
        agent.tool_call("t", input={"large": "y" * 100_000})
    contents = store.contents(run.key)
    assert [record for record, _ in contents] == list(store.load(run.key).walk())
    by_kind = {record.kind: value for record, value in contents}
    assert by_kind["AgentRequest"]["request"] == {"x": 1}
    assert by_kind["Note"] == "a text"
    assert by_kind["IngestedFile"] == b"\xff\x00"
    assert by_kind["ToolInput"] == {"large": "y" * 100_000}
    assert next(value for _, value in store.contents(agent.key.text)) == by_kind["AgentRequest"]
    with pytest.raises(sapwood.NotFound, match="sapwood runs"):
        store.contents(store.keys.root())


def test_tasks_of_one_loop_record_into_one_run(store: Store) -> None:
    async def work(run: Run, name: str) -> None:
        async with run.agent(name) as agent:
            agent.note("one")
            await asyncio.sleep(0)
            async with agent.agent(f"{name}.sub") as sub:
                sub.note("two")
            agent.report(name)

    async def main() -> Run:
        async with store.record() as run:
            await asyncio.gather(*(work(run, f"task_{number}") for number in range(12)))
        return run

    run = asyncio.run(main())
    tree = store.load(run.key)
    assert len(list(tree.of_kind("AgentRequest"))) == 24
    assert len(list(tree.of_kind("Report"))) == 12
    assert store.verify(run.key).findings == ()
    assert status(store, run) == "completed"


def test_after_a_fork_the_child_is_told_so_and_may_open_a_store_of_its_own(tmp_path: Path) -> None:
    def in_the_child(run: Run, agent: Agent) -> int:
        try:
            agent.note("in the child")
        except sapwood.StoreClosed as error:
            if "forked" not in str(error):
                return 2
        with sapwood.open(tmp_path / "s.db") as own, own.attach(run.key).agent("child") as child:
            child.note("of the child")
        return 0

    with sapwood.open(tmp_path / "s.db") as store, store.record() as run, run.agent("a") as agent:
        agent.note("before")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = in_the_child(run, agent)
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        agent.note("after")
        run.flush()
        notes = [record.content for record in store.load(run.key).of_kind("Note")]
        assert sorted(notes) == [b"after", b"before", b"of the child"]


def test_an_agent_that_is_not_seen_yet_says_what_makes_it_seen(tmp_path: Path) -> None:
    name = tmp_path / "s.db"
    with sapwood.open(name) as first, sapwood.open(name) as second, first.record() as run, run.agent("a") as agent:
        with pytest.raises(sapwood.NotFound, match=r"seen after its flush\(\)"):
            second.attach(run.key).attach(agent.key)
        agent.flush()
        assert second.attach(run.key).attach(agent.key).name == "a"


def test_after_the_seal_nothing_is_accepted(store: Store) -> None:
    run = record_a_run(store)
    with pytest.raises(sapwood.RunSealed):
        store.publish(sapwood.ArtifactEvent(Note(store.keys.child(run.key), text="x", content_type="text")))
    with pytest.raises(sapwood.ScopeEnded, match=r"evidence\(\) adds to a run that is sealed"):
        run.outcome("late", passed=True)
    with pytest.raises(sapwood.RunSealed):
        store.attach(run.key)
    late = store.evidence(run.key, "merge", passed=True, evidence={"commit": "abc"})
    reference = next(record for record in records(store, late) if record.kind == "RefArtifact")
    assert run.key.text in reference.content.decode()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("x"), "failed"),
        (KeyboardInterrupt(), "running"),
        (SystemExit(), "running"),
        (asyncio.CancelledError(), "running"),
    ],
)
def test_only_an_exception_that_leaves_the_run_seals_it(store: Store, error: BaseException, expected: str) -> None:
    with pytest.raises(type(error)), store.record() as run, run.agent("a") as agent:  # noqa: PT012
        agent.note("before")
        raise error
    assert status(store, run) == expected
    kinds = [record.kind for record in records(store, run.key)]
    assert ("AgentResult" in kinds) is (expected == "failed")
    assert "Note" in kinds


def test_a_run_and_an_agent_can_be_continued_by_another_opening(tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db") as first, pytest.raises(KeyboardInterrupt), first.record() as run:  # noqa: PT012
        agent = run.agent("a")
        agent.note("one")
        raise KeyboardInterrupt
    with sapwood.open(tmp_path / "s.db") as second:
        assert status(second, run) == "interrupted"
        continued = second.attach(run.key)
        with continued.attach(agent.key) as again:
            again.note("two")
        with continued.agent("a") as retry:
            assert retry.attempt == 2
            assert retry.run_node_id == agent.run_node_id
        continued.complete()
        notes = [record for record in records(second, run.key) if record.kind == "Note"]
        assert [note.content for note in notes] == [b"one", b"two"]
        assert len({msgspec.json.decode(note.metadata)["artifact_id"] for note in notes}) == 2


def test_async_code_ends_its_scopes_with_async_with(tmp_path: Path) -> None:
    async def work() -> sapwood.ArtifactKey:
        async with sapwood.open(tmp_path / "s.db") as store, store.record() as run, run.agent("a") as agent:
            agent.report("done")
        return run.key

    key = asyncio.run(work())
    with sapwood.open(tmp_path / "s.db") as store:
        assert [row.status for row in store.runs() if row.key == key] == ["completed"]


def test_a_recorded_run_verifies_and_its_head_can_be_kept_elsewhere(store: Store) -> None:
    run = record_a_run(store)
    verification = store.verify(run.key)
    assert verification.findings == ()
    assert verification.head == store.runs()[0].head
    assert store.verify(run.key, head=verification.head).is_ok
    assert [finding.code for finding in store.verify(run.key, head="00" * 32).findings] == ["head_differs"]
    assert store.load(run.key).root.kind == "Execution"


def test_verify_finds_an_artifact_that_was_added_under_a_sealed_run_behind_its_back(tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db") as store:
        run = record_a_run(store)
        child = store.keys.child(run.key)
        writer: Any = store.artifacts
        columns = [
            row[1] for row in writer._writer.execute("pragma table_info(artifact)") if row[1] not in ("id", "key")
        ]
        names = ", ".join(columns)
        writer._writer.execute(
            f"insert into artifact (key, {names}) select ?, {names} from artifact where kind = 'Input'", (child.pack(),)
        )
        codes = {finding.code for finding in store.verify(run.key).findings}
    assert "head_mismatch" in codes


def test_a_prompt_of_which_reading_stopped_is_not_accused_of_missing_the_rest(tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db") as store:
        store.templates.register(TEMPLATE, "Find {{ what|length }}.", variables=["what"])
        for what in (os.urandom(20_000).hex(), "bugs"):
            with store.record() as run, run.agent("a") as agent:
                agent.prompt(TEMPLATE, args={"what": what})
    edit = apsw.Connection(str(tmp_path / "s.db"))
    edit.execute("drop trigger chunk_remains; delete from chunk")
    edit.close()
    with sapwood.open(tmp_path / "s.db") as store:
        findings = store.verify().findings
    assert {finding.code for finding in findings} == {"unreadable", "damaged"}


def test_what_is_said_of_a_prompt_is_kept_with_its_text(store: Store) -> None:
    store.templates.register(TEMPLATE, "Find bugs.")
    with store.record() as run, run.agent("discovery") as agent:
        prompt = agent.prompt(TEMPLATE, metadata={"why": "the first look"})
    (stored,) = [from_record(record) for record in records(store, prompt.key) if record.kind == "RenderedPrompt"]
    assert isinstance(stored, RenderedPrompt)
    assert stored.metadata == {"why": "the first look"}
    assert store.verify(run.key).findings == ()


def test_a_prompt_can_be_given_to_whatever_takes_text(store: Store) -> None:
    store.templates.register(TEMPLATE, "Find bugs.")
    store.templates.register("tpl.agent.again", "Again: {{ before }}", variables=["before"])
    with store.record() as run, run.agent("discovery") as agent:
        prompt = agent.prompt(TEMPLATE)
        added = sapwood.Contribution("before", prompt)
        again = agent.prompt("tpl.agent.again", {"before": prompt}, contributions=[added])
        agent.tool_call("model", input={"prompt": prompt}, output=[prompt])
        agent.report(prompt)
        agent.result(prompt)
    assert again == "Again: Find bugs.\n\nFind bugs."
    contents = [record.content for record in records(store, run.key) if b"Find bugs." in record.content]
    assert {b"Find bugs.", b'{"prompt":"Find bugs."}', b'["Find bugs."]'} < set(contents)
    assert store.verify(run.key).findings == ()


def test_a_result_that_could_not_be_recorded_is_refused_where_it_is_given(store: Store) -> None:
    with store.record() as run, run.agent("a") as agent:
        agent.result({"fine": 1})
        with pytest.raises(sapwood.NotCanonical):
            agent.result(b"x")
    (result,) = [record.content for record in records(store, run.key) if record.kind == "AgentResult"]
    assert result == b'{"result":{"fine":1},"status":"completed"}'
    assert status(store, run) == "completed"


def note(key: sapwood.ArtifactKey, text: str) -> Note:
    return Note(key, text=text, content_type="text")


def foreign(key: sapwood.ArtifactKey, **changes: Any) -> Record:
    fields = {"kind": "ToolInput", "content": b"{}", "metadata": b"{}", **changes}
    return Record(key=key, content_hash=sapwood.hash_bytes(fields["content"]), **fields)


def test_of_two_artifacts_added_under_one_key_the_first_stays(store: Store) -> None:
    with store.record() as run, run.agent("a") as agent:
        key = agent.child_key()
        agent.add(note(key, "first"))
        for again in (agent.add, store.publish):
            with pytest.raises(sapwood.DuplicateKey):
                again(note(key, "second"))
        agent.flush()
        with pytest.raises(sapwood.DuplicateKey):
            agent.add(note(key, "third"))
        assert agent.report("the key of a report") != key
        with pytest.raises(sapwood.DuplicateKey):
            agent.add(note(agent.report("pending"), "in its place"))
    assert [record.content for record in records(store, key)] == [b"first"]


def test_what_is_added_belongs_to_the_run_refers_to_what_is_stored_and_is_no_seal(store: Store) -> None:
    with store.record() as run, run.agent("a") as agent:
        wrong: list[tuple[type[Exception], Artifact]] = [
            (sapwood.InvalidArtifact, note(store.keys.root(), "of no run")),
            (sapwood.DanglingReference, RefArtifact(agent.child_key(), target=store.keys.root(), role="see")),
            (sapwood.InvalidArtifact, Seal(run.child_key(), status="completed", head="x", counts={})),
            (sapwood.InvalidArtifact, ticket(agent.child_key(), "a", ("a",))),
            (sapwood.InvalidArtifact, discovery(agent.child_key(), "one", "one")),
        ]
        for error, artifact in wrong:
            with pytest.raises(error):
                run.add(artifact)
    assert status(store, run) == "completed"
    assert store.verify(run.key).findings == ()


def test_a_template_is_registered_and_not_published_and_one_inside_a_run_belongs_to_that_run(store: Store) -> None:
    version = store.templates.register(TEMPLATE, "Find {{ what }}.", variables=["what"])
    registered = store.load(version.key).root
    with pytest.raises(sapwood.InvalidArtifact, match="register"):
        store.publish(msgspec.structs.replace(registered, key=store.keys.root()))
    for _ in range(2):
        with store.record() as run, run.agent("a") as agent:
            about: dict[str, Any] = {"template_id": TEMPLATE, "variables": ("what",), "last_updated_ms": 1}
            agent.add(PromptTemplate(agent.child_key(), text=version.text, **about))
    assert [found.key for found in store.artifacts.list_versions(TEMPLATE)] == [version.key]
    assert store.verify().findings == ()


def ticket(key: sapwood.ArtifactKey, task: str, needs: tuple[str, ...] = (), *links: DiscoveryLink) -> PlanningTicket:
    about: dict[str, Any] = {"title": "t", "description": "d", "acceptance_criteria": (), "discovery_links": links}
    return PlanningTicket(key, tasks=(Task(id=task, dependencies=needs, **about),))


def discovery(key: sapwood.ArtifactKey, *ids: str) -> DiscoveryReport:
    queries = tuple(GeneratedQuery(id=name, text="q") for name in ids)
    nothing: dict[str, Any] = {"file_references": (), "cross_links": (), "semantic_tags": (), "diagrams": ()}
    return DiscoveryReport(key, generated_queries=queries, **nothing)


@pytest.mark.parametrize(("entry", "ended"), [("q1", "completed"), ("q2", "failed")])
def test_a_link_of_a_ticket_resolves_before_the_run_completes(store: Store, entry: str, ended: str) -> None:
    run = store.record()
    with run.agent("plan") as agent:
        report = agent.child_key()
        agent.add(ticket(agent.child_key(), "a", (), DiscoveryLink(report=report, entry=entry)))
        agent.add(discovery(report, "q1"))
    if ended == "failed":
        with pytest.raises(sapwood.IncompleteRun, match="links to 'q2'"), run:
            pass
    else:
        run.complete()
    assert status(store, run) == ended


WRONG_RECORDS: dict[str, Callable[[sapwood.ArtifactKey], Any]] = {
    "names out of order": lambda key: foreign(key, content=b'{"b":1,"a":2}'),
    "white space": lambda key: foreign(key, content=b'{"a": 1}'),
    "a float like an integer": lambda key: foreign(key, content=b"[1.0]"),
    "no JSON": lambda key: foreign(key, content=b"nope"),
    "beyond a double": lambda key: foreign(key, content=b"1e400"),
    "metadata out of order": lambda key: foreign(key, metadata=b'{"z":1,"y":2}'),
    "metadata that is no object": lambda key: foreign(key, metadata=b"[]"),
    "another media": lambda key: foreign(key, metadata=b'{"media":"zip"}'),
    "no kind": lambda key: foreign(key, kind=""),
    "a kind of two lines": lambda key: foreign(key, kind="a\nb"),
    "a surrogate": lambda key: foreign(key, kind="\ud800"),
    "a reference to nothing": lambda key: foreign(key, kind="RefArtifact"),
    "a list as a reference": lambda key: foreign(key, kind="RefArtifact", content=b"[]"),
    "no bytes": lambda key: Record(key, "ToolInput", "x", "", b"{}"),  # type: ignore[arg-type]
    "no key": lambda key: Record("ak:x", "ToolInput", b"{}", sapwood.hash_bytes(b"{}"), b"{}"),  # type: ignore[arg-type]
    "another hash": lambda key: Record(key, "ToolInput", b"{}", "0" * 64, b"{}"),
    "nothing": lambda key: None,
    "a seal": lambda key: foreign(key, kind="Seal", content=b'{"counts":{},"head":"","status":"failed"}'),
}


@pytest.mark.parametrize("name", WRONG_RECORDS)
def test_a_record_that_would_not_have_been_written_like_this_is_refused(store: Store, name: str) -> None:
    with store.record() as run:
        with pytest.raises(sapwood.SapwoodError):
            store.publish(WRONG_RECORDS[name](store.keys.child(run.key)))
        with pytest.raises(sapwood.SapwoodError):
            store.publish(UnknownArtifact(WRONG_RECORDS[name](store.keys.child(run.key))))  # type: ignore[arg-type]
        store.publish(foreign(store.keys.child(run.key)))
        later = foreign(store.keys.child(run.key), kind="OfTomorrow", content=b"\xff", metadata=b'{"media":"zip"}')
        store.publish(later)
    assert later in records(store, run.key)
    assert store.verify(run.key).findings == ()


WRONG_CALLS: dict[str, Callable[[Store, Run, Agent], Any]] = {
    "record inputs": lambda store, run, agent: store.record(inputs=5),  # type: ignore[arg-type]
    "verify": lambda store, run, agent: store.verify(5),  # type: ignore[arg-type]
    "load": lambda store, run, agent: store.load(5),  # type: ignore[arg-type]
    "emit of a run": lambda store, run, agent: run.emit(None),  # type: ignore[arg-type]
    "emit of an agent": lambda store, run, agent: agent.emit(None),  # type: ignore[arg-type]
    "name": lambda store, run, agent: run.agent([]),  # type: ignore[arg-type]
    "template": lambda store, run, agent: agent.prompt(5),  # type: ignore[arg-type]
    "contributions": lambda store, run, agent: agent.prompt(TEMPLATE, contributions=5),  # type: ignore[arg-type]
    "contribution": lambda store, run, agent: agent.prompt(TEMPLATE, contributions=[5]),  # type: ignore[list-item]
    "manifest": lambda store, run, agent: agent.report("x", context_manifest="yes"),
    "metadata": lambda store, run, agent: agent.prompt(TEMPLATE, metadata=[1]),  # type: ignore[arg-type]
    "filled in with a prompt": lambda store, run, agent: agent.prompt(TEMPLATE, metadata={"renderer": "mine"}),
    "filled in": lambda store, run, agent: agent.note("x", artifact_id=9),
    "head": lambda store, run, agent: store.verify(run.key, head=5),  # type: ignore[arg-type]
    "limit": lambda store, run, agent: store.runs(limit="x"),  # type: ignore[arg-type]
    "status": lambda store, run, agent: store.runs(status="bogus"),
    "listener": lambda store, run, agent: store.subscribe(5),  # type: ignore[arg-type]
    "fields of a result": lambda store, run, agent: agent.result(outcame="fine"),
    "fields of a request": lambda store, run, agent: run.agent("x", atempt=3),
    "id of a template": lambda store, run, agent: agent.prompt(Templated(template_id="tpl.a.b")),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_recording_call_with_something_wrong_is_refused_and_leaves_a_record_that_can_be_read(
    store: Store, name: str
) -> None:
    store.templates.register(TEMPLATE, "Find bugs.")
    with store.record() as run, run.agent("d") as agent, pytest.raises(sapwood.SapwoodError, match="expected"):
        WRONG_CALLS[name](store, run, agent)
    assert not [finding for finding in store.verify(run.key).findings if finding.code == "unreadable"]


@pytest.mark.parametrize("wrong", [5, b"s.db", None])
def test_a_store_is_opened_by_the_path_of_a_file(wrong: Any) -> None:
    with pytest.raises(sapwood.WrongArgument, match=r"argument url is .*expected the path of a file"):
        sapwood.open(wrong)


def test_verify_reads_on_after_a_contribution_of_nobody(store: Store) -> None:
    store.templates.register(TEMPLATE, "Find {{ what }}.", variables=["what"])
    with store.record() as run, run.agent("discovery") as agent:
        prompt = agent.prompt(TEMPLATE, args={"what": "bugs"})
        agent.add(PromptContribution(store.keys.child(prompt.key), text="x", contributor="", order=1, slot="prompt"))
        agent.report("done")
    verification = store.verify(run.key)
    assert [(finding.code, finding.key) for finding in verification.findings] == [("render_failed", prompt.key)]
    assert verification.artifacts == len(records(store, run.key))


def test_us1_6_a_prompt_is_rebuilt_from_its_template_arguments_and_contributions(store: Store) -> None:
    told = store.reconstruct(record_a_run(store).key)
    assert [prompt.rebuilt for prompt in told.prompts] == ["Find bugs.\n\nsrc/"]
    assert told.findings == []
    assert [use.tool for use in told.tool_uses] == ["grep", "read"]


@pytest.mark.parametrize("stores_first", [False, True], ids=["lost", "stored"])
def test_a_seal_whose_commit_failed_can_be_set_again_whatever_came_of_it(
    store: Store, stores_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = store.artifacts.append

    def fail_once(given: Any, **rest: Any) -> None:
        if stores_first:
            append(given, **rest)
        monkeypatch.setattr(store.artifacts, "append", append)
        raise sapwood.SyncFailed("here", "the disk did not confirm a sync")

    run = store.record()
    run.flush()
    monkeypatch.setattr(run.recorder, "flush", lambda: None)
    monkeypatch.setattr(store.artifacts, "append", fail_once)
    with pytest.raises(sapwood.SyncFailed):
        run.complete()
    run.complete()
    assert status(store, run) == "completed"
    assert [record.kind for record in records(store, run.key)].count("Seal") == 1
