"""The protocol that every provider keeps, ours and others'."""

from __future__ import annotations

import pytest

from sapwood.core.deltas import Delta, DeltaMerger
from sapwood.core.events import NodeStreamDeltaEvent, NodeThoughtDeltaEvent
from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.errors import ProviderBrokeProtocol, ProviderFailed
from sapwood.providers import stream
from tests.providers.streams import Says, play, texts

RESULT = ProviderResult(report="done")


def delta(text: str) -> NodeStreamDeltaEvent:
    return NodeStreamDeltaEvent(event_id="1", node_id="n", timestamp="2026-01-01T00:00:00.000Z", delta_content=text)


def thought(text: str) -> NodeThoughtDeltaEvent:
    return NodeThoughtDeltaEvent(event_id="2", node_id="n", timestamp="2026-01-01T00:00:00.000Z", delta_content=text)


def test_events_come_first_and_the_one_result_last() -> None:
    assert play(Says(delta("a"), RESULT)) == [delta("a"), RESULT]


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ((), "ended without a result"),
        ((delta("a"),), "ended without a result"),
        ((RESULT, RESULT), "a second result"),
        ((RESULT, delta("late")), "an event after its result"),
        (("text", RESULT), "sent str"),
        (({"type": "nonsense"}, RESULT), "nonsense"),
        (({"type": "result"}, {"type": "result"}), "a second result"),
        ((ProviderResult(report="\ud800"),), "lone surrogate"),
        ((ProviderResult(data={"a": float("nan")}),), "no canonical JSON"),
        ((ProviderResult(content_type="html"),), "content_type"),
        ((ProviderResult(report=5),), "text"),  # type: ignore[arg-type]
    ],
    ids=[
        *("nothing", "no-result", "two-results", "event-after", "foreign", "unknown", "plain-results"),
        *("surrogate", "nan", "content-type", "report"),
    ],
)
def test_a_stream_that_breaks_the_protocol_is_a_typed_error(items: tuple[object, ...], why: str) -> None:
    with pytest.raises(ProviderBrokeProtocol, match=why):
        play(Says(*items))


@pytest.mark.mutant
def test_without_the_check_two_results_would_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "checked", lambda name, provider, prompt, options: provider.run(prompt, options))
    assert play(Says(RESULT, RESULT)) == [RESULT, RESULT]


def test_plain_data_is_understood_and_an_error_is_a_failure() -> None:
    items = play(Says({"type": "delta", "text": "a"}, {"type": "result", "report": "done"}))
    assert (texts(items), items[-1]) == (["a"], RESULT)
    with pytest.raises(ProviderFailed, match="no money") as caught:
        play(Says({"type": "error", "message": "no money", "retryable": False}))
    assert not caught.value.retryable


class Bare:
    """A stream that cannot be closed."""

    def run(self, prompt: str, options: ProviderRunOptions) -> Bare:
        self._items = iter([RESULT])
        return self

    def __aiter__(self) -> Bare:
        return self

    async def __anext__(self) -> ProviderResult:
        for item in self._items:
            return item
        raise StopAsyncIteration


def test_a_stream_need_not_be_a_generator() -> None:
    assert play(Bare()) == [RESULT]


def test_small_deltas_are_merged_and_nothing_is_lost() -> None:
    items = play(Says(*(delta(f"{n} ") for n in range(500)), thought("hm"), delta("x"), RESULT))
    assert texts(items) == ["".join(f"{n} " for n in range(500)), "hm", "x"]


def test_a_slow_stream_is_shown_while_it_comes() -> None:
    items = play(Says(*(delta("a") for _ in range(4)), RESULT, pause_s=0.15))
    assert len(texts(items)) >= 2
    assert "".join(texts(items)) == "aaaa"


def test_deltas_go_out_at_4_kb_or_250_ms() -> None:
    merger = DeltaMerger()
    assert merger.add(Delta("delta", "x" * 4095), 0) == []
    assert merger.add(Delta("delta", "x"), 0) == [Delta("delta", "x" * 4096)]
    assert merger.add(Delta("delta", "a"), 1000) == []
    assert merger.due_ms == 1250
    assert merger.add(Delta("delta", "b"), 1250) == [Delta("delta", "ab")]
