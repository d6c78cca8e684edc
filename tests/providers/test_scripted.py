"""Answers from a file: per node, per attempt, as faulty as they are told to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sapwood.core.events import GraphEvent
from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.errors import InvalidScript, ProviderFailed
from sapwood.providers.scripted import Script, ScriptedProvider, load_script
from tests.providers.streams import play

SCRIPT = """
answers:
  draft:
    - {fail: out of memory}
    - report: "# Draft"
      decision: approved
      data: {quality: {score: 0.9}}
      tokens: 12
      events: [{type: thought, text: hm}, {type: tool_call, name: grep, input: {q: a}, output: [1]}]
  tasks.*: [{report: a task, repeat: 3}]
default: {report: nothing scripted}
"""


def options(node: str, attempt: int = 1, **settings: Any) -> ProviderRunOptions:
    return ProviderRunOptions(node=node, attempt=attempt, settings=settings)


@pytest.fixture
def provider(tmp_path: Path) -> ScriptedProvider:
    (tmp_path / "answers.yaml").write_text(SCRIPT)
    return ScriptedProvider(load_script(tmp_path / "answers.yaml"))


def test_each_attempt_has_its_answer_and_the_last_one_stays(provider: ScriptedProvider) -> None:
    with pytest.raises(ProviderFailed, match="out of memory"):
        play(provider, options=options("draft"))
    for attempt in (2, 3, 9):
        *events, result = play(provider, options=options("draft", attempt))
        assert result == ProviderResult("# Draft", "markdown", "approved", {"quality": {"score": 0.9}}, 12)
        kinds = [type(event).__name__ for event in events]
        assert kinds == ["NodeThoughtDeltaEvent", "ToolCallEvent"]
        assert all(isinstance(event, GraphEvent) and event.node_id == "draft" for event in events)


def test_patterns_and_the_default_answer_for_the_others(provider: ScriptedProvider) -> None:
    assert play(provider, options=options("tasks.one")) == [ProviderResult("a taska taska task")]
    assert play(provider, options=options("other")) == [ProviderResult("nothing scripted")]


def test_a_node_may_bring_its_own_answers_or_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("answers: {a: [{report: from the file}]}")
    given = options("a", script=str(tmp_path / "mine.yaml"))
    assert play(ScriptedProvider(), options=given) == [ProviderResult("from the file")]
    assert play(ScriptedProvider(), options=options("a", answers=[{"report": "own"}])) == [ProviderResult("own")]


def test_without_a_script_it_says_who_was_asked() -> None:
    assert play(ScriptedProvider(), options=options("a", 2)) == [ProviderResult("Scripted answer of a, attempt 2.")]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"reports": "x"}, "unknown 'reports'"),
        ({"decision": "maybe"}, "decision of a result is one of"),
        ({"delay_s": -1}, "delay_s"),
        ({"repeat": 0}, "repeat"),
        ({"report": 5}, "report"),
        ({"events": [{"type": "nothing"}]}, "nothing"),
        ({"events": "x"}, "events is a list"),
        ("text", "an answer is a mapping"),
        ({"report": "x" * 1000, "repeat": 10**9}, "longer than"),
    ],
    ids=["name", "decision", "delay", "repeat", "report", "event", "events", "text", "size"],
)
def test_a_script_with_a_mistake_is_refused_before_it_answers(answer: Any, why: str) -> None:
    with pytest.raises(InvalidScript, match=why):
        Script({"a": [answer]})


@pytest.mark.parametrize("content", ["[", "answers: 5", "5", "answers: {a: 5}", "answers: {a: []}", "\0"], ids=str)
def test_a_file_that_is_no_script_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.yaml").write_text(content)
    with pytest.raises(InvalidScript):
        load_script(tmp_path / "bad.yaml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidScript, match=r"none\.yaml"):
        load_script(tmp_path / "none.yaml")


def test_a_misspelt_option_is_refused_and_those_of_the_provider_it_stands_in_for_are_not() -> None:
    theirs = ProviderRunOptions(node="draft", settings={"command": ["my-agent"], "model": "m", "temperature": 0.5})
    assert play(ScriptedProvider(), options=theirs)[-1] == ProviderResult("Scripted answer of draft, attempt 1.")
    misspelt = ProviderRunOptions(node="draft", settings={"scrpt": "answers.yaml"})
    with pytest.raises(ProviderFailed, match="unknown option 'scrpt'; did you mean 'script'") as caught:
        play(ScriptedProvider(), options=misspelt)
    assert not caught.value.retryable
