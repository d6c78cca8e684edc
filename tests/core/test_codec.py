"""Artifacts and events survive the way to bytes and back, also what only a newer version knows."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from msgspec import UNSET

from sapwood.core.artifacts import AgentRequest, AnyArtifact, Execution, IngestManifest, Input, Note, Report, ToolOutput
from sapwood.core.canonical import canonical_json
from sapwood.core.codec import (
    SHAPES,
    from_dict,
    from_foreign,
    from_record,
    read_content,
    record_from_dict,
    to_dict,
    to_record,
)
from sapwood.core.config import ExecutionConfig, execution_config
from sapwood.core.event_artifacts import (
    EVENT_ARTIFACTS,
    EVENT_TYPES,
    artifact_of_event,
    event_from_dict,
    event_of_artifact,
    event_to_dict,
)
from sapwood.core.events import (
    AnyEvent,
    NodeAddedEvent,
    NodePrunedEvent,
    NodeUpdatedEvent,
    PauseEvent,
    WorktreeCreatedEvent,
)
from sapwood.core.hashing import hash_bytes
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact, UnknownArtifact
from sapwood.core.record import Record
from sapwood.core.references import target_of
from sapwood.errors import InvalidArtifact, InvalidInput, InvalidText, NotCanonical, WrongArgument
from tests.conftest import Dose
from tests.core import values

KINDS: tuple[type[Artifact], ...] = get_args(AnyArtifact)
EVENTS = tuple(EVENT_TYPES.values())
KEY = ArtifactKey("ak:01HQXK5V8RPZM4J3NHWGC7SDFG")

SPEC_KINDS = [
    "Execution",
    "ExecutionConfig",
    "InputArtifacts",
    "AgentExecutionArtifacts",
    "OutcomeEvidenceArtifacts",
    "AgentRequest",
    "AgentRequests",
    "AgentResult",
    "RenderedPrompt",
    "PromptTemplate",
    "PromptArgs",
    "PromptContribution",
    "ToolCallArtifact",
    "ToolInput",
    "ToolOutput",
    "EventArtifact",
    "MessageStreamArtifact",
    "OutcomeEvidence",
    "RefArtifact",
    "DbRef",
    "DiscoveryReport",
    "PlanningTicket",
    "ValidationError",
    "Input",
    "Delivery",
    "Report",
    "Note",
    "Log",
    "IngestManifest",
    "IngestedFile",
    "PhaseHandoff",
    "BudgetResult",
    "Seal",
]


def test_the_stored_kind_names_are_those_of_the_format() -> None:
    assert sorted(SHAPES) == sorted(SPEC_KINDS)


@pytest.mark.torture(short=5, full=10_000)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_round_trips_through_record_and_dict(kind: type[Artifact], dose: Dose) -> None:
    @values.many(dose.count, dose.seed)
    @given(values.instances(kind))
    def law(artifact: Artifact) -> None:
        record = to_record(artifact)
        assert from_record(record) == artifact
        assert to_record(from_record(record)) == record
        assert from_dict(to_dict(artifact)) == from_record(record)
        assert record_from_dict(to_dict(record)) == record
        assert record.content_hash == hash_bytes(record.content)
        assert canonical_json(msgspec.json.decode(record.metadata)) == record.metadata

    law()


@pytest.mark.torture(short=5, full=10_000)
@pytest.mark.parametrize("event_type", EVENTS, ids=lambda kind: kind.__name__)
def test_every_event_round_trips_and_is_recorded_whole(event_type: type[Any], dose: Dose) -> None:
    @values.many(dose.count, dose.seed)
    @given(values.instances(event_type), values.keys)
    def law(event: Any, key: ArtifactKey) -> None:
        assert event_from_dict(event_to_dict(event)) == event
        artifact = artifact_of_event(key, event)
        assert event_of_artifact(artifact) == event
        assert from_record(to_record(artifact)) == artifact
        stored = msgspec.json.decode(to_record(artifact).content)
        assert {name: stored[name] for name in ("event_id", "node_id", "timestamp", "type")} == {
            "event_id": event.event_id,
            "node_id": event.node_id,
            "timestamp": event.timestamp,
            "type": event_type.__name__,
        }

    law()


@pytest.mark.torture(short=20, full=10_000)
def test_an_unknown_kind_round_trips(dose: Dose) -> None:
    @values.many(dose.count, dose.seed)
    @given(values.keys, values.json_values, values.objects)
    def law(key: ArtifactKey, content: object, metadata: dict[str, Any]) -> None:
        metadata.pop("media", None)
        data = canonical_json(content)
        record = Record(key, "KindOfTomorrow", data, hash_bytes(data), canonical_json(metadata))
        artifact = from_record(record)
        assert isinstance(artifact, UnknownArtifact)
        assert (artifact.key, artifact.kind) == (key, "KindOfTomorrow")
        assert to_record(artifact) == record
        assert record_from_dict(to_dict(artifact)) == record

    law()


@pytest.mark.torture(short=20, full=10_000)
def test_unknown_fields_are_kept_at_every_level(dose: Dose) -> None:
    link = {"report": KEY.text, "entry": "f1"}

    @values.many(dose.count, dose.seed)
    @given(values.objects, values.objects, values.objects)
    def law(outer: dict[str, Any], task: dict[str, Any], inner: dict[str, Any]) -> None:
        whole = {
            **outer,
            "tasks": [
                {
                    **task,
                    "id": "a",
                    "title": "",
                    "description": "",
                    "dependencies": [],
                    "acceptance_criteria": [],
                    "discovery_links": [{**inner, **link}],
                }
            ],
            "title": None,
            "goal": "g",
        }
        data = canonical_json(whole)
        record = Record(KEY, "PlanningTicket", data, hash_bytes(data))
        assert to_record(from_record(record)) == record

    law()


def test_every_event_type_has_its_artifact() -> None:
    assert set(EVENT_ARTIFACTS) == {cls.__name__ for cls in get_args(AnyEvent)} == set(EVENT_TYPES)
    assert len(EVENT_ARTIFACTS) == 37


def test_every_event_class_stands_in_the_union() -> None:
    from sapwood.core import events

    classes = {cls for cls in vars(events).values() if isinstance(cls, type) and issubclass(cls, events.GraphEvent)}
    assert classes - {events.GraphEvent} == set(EVENTS)


def test_no_field_has_a_default_that_would_be_written_without_being_given() -> None:
    waiting, seen = [*KINDS, *EVENTS], set()
    while waiting:
        cls = waiting.pop()
        seen.add(cls)
        for field in msgspec.structs.fields(cls):
            if field.name in ("unknown", "metadata"):
                continue
            assert field.required or field.default is UNSET, f"{cls.__name__}.{field.name}"
    assert len(seen) == 33 + 37


def test_what_was_not_given_is_not_written_and_null_is() -> None:
    assert to_record(Execution(KEY)).content == b"{}"
    assert to_record(Execution(KEY, workflow=None)).content == b'{"workflow":null}'


def test_fields_of_a_text_kind_are_metadata_and_its_text_is_the_content() -> None:
    record = to_record(Note(KEY, text="é", content_type="text", artifact_id=3))
    assert record.content == "é".encode()
    assert record.metadata == b'{"artifact_id":3,"content_type":"text","media":"text"}'


def test_visit_and_try_are_metadata() -> None:
    request = AgentRequest(KEY, node="a", attempt=2, run_node_id=4, visit=1, try_=2)
    assert to_record(request).metadata == b'{"run_node_id":4,"try":2,"visit":1}'
    assert request.context_id == KEY


@pytest.mark.parametrize(
    "make",
    [
        lambda: Note(KEY, text=b"x", content_type="text"),  # type: ignore[arg-type]
        lambda: Note(KEY, text="x", content_type="html"),  # type: ignore[arg-type]
        lambda: Note("ak:x", text="x", content_type="text"),  # type: ignore[arg-type]
        lambda: Note(KEY, text="x", content_type="text", artifact_id=True),
        lambda: Report(KEY, text="x", content_type="text", metadata=["x"]),  # type: ignore[arg-type]
        lambda: AgentRequest(KEY, node="a", attempt=1, options=["x"]),  # type: ignore[arg-type]
        lambda: AgentRequest(KEY, node="a", attempt=1, options=(1,)),  # type: ignore[arg-type]
        lambda: NodeAddedEvent("e", None, "yesterday"),
        lambda: to_record(Note(KEY, text="x", content_type="text", metadata={"media": "bytes"})),
        lambda: to_record(Note(KEY, text="x", content_type="text", metadata={"artifact_id": 1}, artifact_id=2)),
        lambda: to_record(Note(KEY, text="x", content_type="text", metadata={"artifact_id": 1})),
        lambda: to_record(Note(KEY, text="x", content_type="text", unknown={"a": 1})),
        lambda: to_record(AgentRequest(KEY, node="a", attempt=1, metadata={"visit": "first"})),
        lambda: to_record(AgentRequest(KEY, node="a", attempt=1, unknown={"goal": 5})),
        lambda: event_to_dict(PauseEvent("e", None, "2026-01-01T00:00:00Z", unknown={"message": 5})),
        lambda: to_record(Artifact(KEY)),
        lambda: from_record(Record(KEY, "Note", b"\xff", "", b'{"content_type":"text","media":"text"}')),
        lambda: from_record(Record(KEY, "Note", b"x", "", b'{"content_type":"text"}')),
        lambda: from_record(Record(KEY, "Note", b"x", "", b'{"media":"text"}')),
        lambda: from_record(Record(KEY, "Execution", b"{}", "", b'{"media":null}')),
        lambda: from_record(Record(KEY, "Execution", b"[]", "")),
        lambda: from_record(Record(KEY, "Execution", b'{"workflow_run_id":"1"}', "")),
        lambda: from_record(Record(KEY, "RefArtifact", b'{"role":"x","target":"ak:no"}', "")),
        lambda: from_dict({"key": KEY.text}),
        lambda: execution_config(KEY, {"policies": "\ud800"}),
        lambda: from_dict({**to_dict(Execution(KEY)), "content_hash": "0" * 64}),
        lambda: from_dict({**to_dict(Execution(KEY)), "kind": 10**5_000}),
        lambda: from_dict({**to_dict(Execution(KEY)), "kind": "two\nlines"}),
        lambda: from_dict({**to_dict(Execution(KEY)), "kind": ""}),
        lambda: from_dict({**to_dict(Execution(KEY)), "new": 1}),
        lambda: from_record(Record(KEY, "Execution", b"{}", "", b"[]")),
        lambda: to_dict(Record(KEY, "Execution", b"{}", "", b"null")),
        lambda: from_dict({**to_dict(Execution(KEY)), "metadata": []}),
        lambda: from_dict({**to_dict(Execution(KEY)), "metadata": {"media": 10**5_000}}),
        lambda: from_dict({**to_dict(IngestManifest(KEY, manifest={})), "metadata": {"media": "text"}}),
        lambda: from_record(Record(KEY, "Execution", b"{}", "", b'{"media":%s}' % (b"9" * 5_000))),
        lambda: event_from_dict({"type": 10**5_000}),
        lambda: event_from_dict({"type": ["PauseEvent"]}),
        lambda: event_from_dict(
            {**event_to_dict(NodeUpdatedEvent("e", None, "2026-01-01T00:00:00Z")), "updates": range(2)}
        ),
        lambda: event_from_dict({"type": "NodeAdded"}),
        lambda: event_from_dict({"type": "NodeAddedEvent", "event_id": "e"}),
    ],
)
def test_what_does_not_fit_is_refused_with_a_typed_error(make: Any) -> None:
    with pytest.raises(InvalidArtifact) as caught:
        make()
    assert "\n" not in str(caught.value)
    assert caught.value.where
    assert caught.value.why


def test_a_field_of_the_wrong_type_says_what_it_is_and_what_was_expected() -> None:
    cases: list[tuple[type[Artifact], dict[str, Any], str]] = [
        (Note, {"text": b"x", "content_type": "text"}, "Note.text: bytes; expected str"),
        (Execution, {"workflow": b"x"}, "Execution.workflow: bytes; expected None or str"),
        (Input, {"name": "n", "value": UNSET}, "Input.value: not given; expected a value, which may be None"),
        (AgentRequest, {"node": "a", "attempt": 1, "options": ("x", 5)}, "AgentRequest.options[1]: int; expected str"),
    ]
    for kind, fields, message in cases:
        with pytest.raises(InvalidArtifact) as caught:
            kind(KEY, **fields)
        assert str(caught.value) == message


def test_a_class_that_only_has_the_name_of_a_kind_is_none() -> None:
    impostor = type("Execution", (Artifact,), {"__annotations__": {"workflow": str}}, frozen=True)
    with pytest.raises(InvalidArtifact, match="Execution: not an artifact kind"):
        to_record(impostor(KEY, workflow="x"))


class Word(StrEnum):
    MAIN = "main"
    OTHER = "other"


def test_a_text_that_carries_more_is_its_text() -> None:
    now = "2026-01-01T00:00:00Z"
    main: Any = Word.MAIN
    event = WorktreeCreatedEvent(main, None, now, worktree_id=Word.OTHER, worktree_type=main)
    wire = event_to_dict(event)
    assert {type(value) for value in wire.values()} == {str, type(None)}
    assert event_from_dict({**wire, "event_id": Word.MAIN, "worktree_type": Word.MAIN}) == event
    pruned = artifact_of_event(KEY, NodePrunedEvent("e", None, now, worktree_ids=(Word.MAIN, "b")))
    assert b'"worktree_ids":["main","b"]' in to_record(pruned).content
    assert to_record(Note(KEY, text=Word.OTHER, content_type="text")).content == b"other"
    with pytest.raises(InvalidArtifact, match="expected one of main, submodule"):
        WorktreeCreatedEvent("e", None, now, worktree_type=Word.OTHER)  # type: ignore[arg-type]


READERS = [from_record, read_content, from_foreign, to_dict, to_record, from_dict, record_from_dict, event_of_artifact]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("wrong", [None, 5, "x", b"{}", {}, [KEY], KEY])
def test_what_is_no_record_or_artifact_is_refused_with_a_typed_error(read: Any, wrong: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), "\ud800", {1: 2}, b"x", {"a"}])
def test_a_value_without_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(NotCanonical):
        to_record(ToolOutput(KEY, value=value))


@pytest.mark.parametrize(
    "timestamp",
    [
        "2026-12-31T23:59:60Z",
        "2026-01-01t00:00:00.123456789z",
        "2024-02-29T23:59:59+23:59",
        "0001-01-01T00:00:00-00:00",
    ],
)
def test_an_event_takes_every_timestamp_of_rfc_3339(timestamp: str) -> None:
    assert PauseEvent("e", None, timestamp).timestamp == timestamp


@pytest.mark.parametrize(
    "timestamp",
    [
        "\u0662\u0660\u0662\u0666-01-01T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:61Z",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00:00Z\n",
    ],
)
def test_an_event_refuses_a_timestamp_that_names_no_time(timestamp: str) -> None:
    with pytest.raises(InvalidArtifact, match="expected RFC 3339"):
        PauseEvent("e", None, timestamp)


def test_bytes_of_a_media_that_only_a_newer_version_knows_travel_as_base64() -> None:
    record = Record(KEY, "KindOfTomorrow", b"\xff{", hash_bytes(b"\xff{"), b'{"media":"zip"}')
    assert to_dict(record)["content"] == "/3s="
    assert record_from_dict(to_dict(record)) == record
    assert read_content(record) == b"\xff{"


@pytest.mark.parametrize("wrong", [None, 5, {"type": "PauseEvent"}, Execution(KEY), KEY])
def test_what_is_no_event_is_recorded_as_none(wrong: Any) -> None:
    with pytest.raises(InvalidArtifact, match="not a graph event"):
        event_to_dict(wrong)
    with pytest.raises(InvalidArtifact, match="not a graph event"):
        artifact_of_event(KEY, wrong)


@pytest.mark.parametrize(
    "wrong", [None, 5, "x", [("type", "PauseEvent")], PauseEvent("e", None, "2026-01-01T00:00:00Z")]
)
def test_what_is_no_object_is_no_event(wrong: Any) -> None:
    with pytest.raises(WrongArgument, match="expected the wire form of an event: an object"):
        event_from_dict(wrong)


def test_no_unknown_field_changes_the_type_of_an_event() -> None:
    event = PauseEvent("e", None, "2026-01-01T00:00:00Z", unknown={"type": "StopAgentEvent"})
    for write in (event_to_dict, lambda event: artifact_of_event(KEY, event)):
        with pytest.raises(InvalidArtifact, match="its unknown fields hold a type"):
            write(event)


@pytest.mark.parametrize(
    "text", ["/3t=", "/3s", "/3s==", "/3s=\n", " /3s=", "_3s=", "/3s=AA", "é", b"/3s=", bytearray(b"/3s="), 5]
)
def test_base64_is_taken_as_it_is_written_and_in_no_other_way(text: Any) -> None:
    wire = to_dict(Record(KEY, "KindOfTomorrow", b"\xff{", hash_bytes(b"\xff{"), b'{"media":"zip"}'))
    with pytest.raises(InvalidArtifact, match="its content is no base64"):
        record_from_dict({**wire, "content": text})


def test_a_record_that_somebody_else_made_is_taken_as_we_would_have_written_it_and_in_no_other_way() -> None:
    note = to_record(Note(KEY, text="x", content_type="text"))
    tomorrow = Record(KEY, "KindOfTomorrow", b"\xff", hash_bytes(b"\xff"), b'{"media":"zip"}')
    for record in (note, tomorrow, to_record(Execution(KEY, workflow="é"))):
        assert to_record(from_foreign(record)) == record
    spaced = b'{"workflow": "x"}'
    for changed in (
        {"content": spaced, "content_hash": hash_bytes(spaced)},
        {"content": b'{"workflow":"x"}'},
        {"metadata": b"{ }"},
        {"metadata": b'{"b":1,"a":2}'},
        {"content": bytearray(b"{}")},
        {"metadata": "{}"},
        {"kind": "two\nlines"},
    ):
        with pytest.raises(InvalidArtifact):
            from_foreign(msgspec.structs.replace(to_record(Execution(KEY)), **changed))
    for key in (KEY.text, KEY.pack(), None):
        with pytest.raises(WrongArgument, match=r"argument record.key is .*; expected an ArtifactKey"):
            from_foreign(msgspec.structs.replace(note, key=key))
    with pytest.raises(WrongArgument, match="expected a Record, as to_record gives it"):
        from_foreign(Note(KEY, text="x", content_type="text"))  # type: ignore[arg-type]


DEEP = b'{"target":' + b"[" * 100_000 + b"]" * 100_000 + b"}"  # too deep for every interpreter: 3.13 reads 9,000
NO_JSON = [b"", b"{", b"[]x", b'"\xff"', b'{"target":"\xff"}', DEEP]


@pytest.mark.parametrize("data", NO_JSON)
def test_bytes_that_are_no_json_are_one_typed_error_however_they_are_read(data: bytes) -> None:
    wrong_content = Record(KEY, "RefArtifact", data, hash_bytes(data))
    for read in (read_content, from_record, to_dict, target_of):
        with pytest.raises(InvalidArtifact) as caught:
            read(wrong_content)
        assert caught.value.where == f"RefArtifact {KEY}"
    wrong_metadata = Record(KEY, "RefArtifact", b"{}", hash_bytes(b"{}"), data)
    for read in (from_record, to_dict):
        with pytest.raises(InvalidArtifact):
            read(wrong_metadata)
    with suppress(InvalidArtifact):
        read_content(wrong_metadata)  # looks for the media alone


@pytest.mark.parametrize("kind", [Input, ExecutionConfig])
def test_a_required_field_of_any_type_has_to_be_given(kind: type[Artifact]) -> None:
    required = [field.name for field in msgspec.structs.fields(kind) if field.required and field.name != "key"]
    fields: dict[str, Any] = dict.fromkeys(required)
    fields |= {"name": "n"} if kind is Input else {"why_absent": dict.fromkeys(fields, "not needed")}
    kind(KEY, **fields)
    for name in fields:
        if name != "why_absent":
            with pytest.raises(InvalidArtifact, match=f"{kind.__name__}.{name}: not given"):
                kind(KEY, **{**fields, name: UNSET})


def test_a_lone_surrogate_in_a_text_is_refused() -> None:
    with pytest.raises(InvalidText):
        to_record(Note(KEY, text="a\udfff", content_type="text"))


def test_artifacts_and_events_never_change() -> None:
    with pytest.raises(AttributeError):
        Execution(KEY).workflow = "x"  # type: ignore[misc]


@pytest.mark.mutant
def test_the_law_sees_a_codec_that_drops_unknown_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    from sapwood.core import codec

    monkeypatch.setattr(codec, "given", lambda value, fields, beyond: real(value, fields, {}))
    from sapwood.core.shapes import given as real

    record = Record(KEY, "Execution", b'{"tomorrow":1}', hash_bytes(b'{"tomorrow":1}'))
    assert to_record(from_record(record)) != record
