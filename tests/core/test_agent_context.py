"""What each of the five readers is told of an agent's request or result."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from msgspec import UNSET

from sapwood.core.agent_context import SHOWN, AgentContext, AgentModel
from sapwood.core.artifacts import AgentRequest, AgentRequests, AgentResult
from sapwood.core.codec import from_record
from sapwood.core.keys import ArtifactKey
from sapwood.core.record import Record
from sapwood.errors import InvalidArtifact
from tests.conftest import Dose
from tests.core import values

KEY = ArtifactKey("ak:01HQXK5V8RPZM4J3NHWGC7SDFG")
RESULT = AgentResult(KEY, status="completed", result={"b": 1, "a": 2.0}, goal="g", risks=("r",), unknown={"new": 1})


def test_requests_and_results_are_agent_contexts() -> None:
    contexts: list[AgentContext] = [AgentRequest(KEY, node="a", attempt=1), AgentRequests(KEY, node="a"), RESULT]
    assert [context.artifact_key for context in contexts] == [KEY] * 3


def test_standard_has_all_fields_and_results_the_result_only() -> None:
    assert RESULT.serialize(for_="results") == 'result: {"a":2,"b":1}'
    assert [line.split(":")[0] for line in RESULT.serialize().splitlines()] == [
        "goal",
        "key",
        "kind",
        "metadata",
        "new",
        "result",
        "risks",
        "status",
    ]
    assert RESULT.serialize(for_="merge_summary") == 'risks: ["r"]'


def test_an_unknown_field_with_the_name_of_a_metadata_field_hides_nothing() -> None:
    stored = Record(KEY, "AgentRequest", b'{"attempt":1,"node":"a","visit":"new"}', "", b'{"visit":2}')
    request = from_record(stored)
    assert isinstance(request, AgentRequest)
    assert "visit: 2" in request.serialize().splitlines()


def test_unknown_fields_with_names_of_ours_are_all_shown() -> None:
    unknown = {"kind": "K", "metadata": 5, "status": "s", "new": 1}
    shown = AgentRequests(KEY, node="a", names=(), unknown=unknown).serialize().splitlines()
    assert {'kind: "AgentRequests"', 'unknown.kind: "K"', "metadata: {}", "unknown.metadata: 5"} < set(shown)
    assert {'status: "s"', "new: 1"} < set(shown)


def test_an_unknown_field_writes_no_line_of_another() -> None:
    unknown = {'x\nstatus: "failed"': 1, 'goal: "other"': 2, "plain-name": 3}
    lines = AgentResult(KEY, status="completed", unknown=unknown).serialize().split("\n")
    assert [line for line in lines if line.startswith(("status", "goal"))] == ['status: "completed"']
    assert {'"x\\nstatus: \\"failed\\"": 1', '"goal: \\"other\\"": 2', "plain-name: 3"} < set(lines)


@pytest.mark.parametrize("reader", ["everyone", None, ["standard"]])
def test_an_unknown_reader_is_refused(reader: Any) -> None:
    with pytest.raises(InvalidArtifact, match="goal_resolution"):
        RESULT.serialize(for_=reader)


@pytest.mark.torture(short=20, full=10_000)
@pytest.mark.parametrize("kind", [AgentRequest, AgentRequests, AgentResult])
def test_each_field_is_one_line_and_equal_artifacts_give_equal_texts(kind: type[AgentModel], dose: Dose) -> None:
    @values.many(dose.count, dose.seed)
    @given(values.instances(kind))
    def law(artifact: AgentModel) -> None:
        for reader, names in SHOWN.items():
            text = artifact.serialize(for_=reader)  # type: ignore[arg-type]
            assert text == artifact.serialize(for_=reader)  # type: ignore[arg-type]
            lines = text.split("\n") if text else []
            if names is not None:
                given = [name for name in names if getattr(artifact, name, UNSET) is not UNSET]
                assert [line.split(":")[0] for line in lines] == given

    law()
