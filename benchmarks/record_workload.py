"""The run that every contestant records: plain values, the way an application holds them.

A step gives 17 artifacts: the request; the rendered prompt with template reference, arguments and two contributions;
two tool calls with input and output; three events; the result with its report. About 17 KB a step, 3.4 MB for 200.
Standard library only: a contestant with an environment of its own imports it too.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

ARTIFACTS_A_STEP = 17
STEPS = {"W1": 200, "W1p": 200, "W2": 2000}
PACE_S = 0.003
TEMPLATE_ID = "tpl.agent.bench.prompt"
TEMPLATE = "You are agent {{ agent }}.\n\nTask: {{ task }}\n\n{% for item in items %}- {{ item }}\n{% endfor %}\nAnswer in markdown.\n"
VARIABLES = ["agent", "items", "task"]

_WORDS = re.split(
    " ",
    "agent reads the plan and finds a value in the tool result of this step context request model error path report "
    'summary file token check test user data list graph node edge state review change because output schema "quoted" '
    "back\\slash café — naïve 1234 0.5 {json} [list] line\nbreak",
)


@dataclass(frozen=True, slots=True)
class Step:
    request: dict[str, Any]
    args: dict[str, Any]
    prompt: str
    contributions: list[tuple[str, str]]
    tools: list[tuple[str, dict[str, Any], dict[str, Any]]]
    events: list[dict[str, Any]]
    report: str
    result: dict[str, Any]


@cache
def _pool() -> str:
    return " ".join(random.Random(7).choices(_WORDS, k=300_000))


def make_steps(count: int, seed: int = 1) -> list[Step]:
    """Return the steps of a run; the same seed gives the same values."""
    rng = random.Random(seed)
    pool = _pool()

    def text(length: int) -> str:
        at = rng.randrange(len(pool) - length)
        return pool[at : at + length]

    return [_make_step(number, rng, text) for number in range(count)]


def _make_step(number: int, rng: random.Random, text: Any) -> Step:
    contributions = [(f"part_{part}", text(450)) for part in range(2)]
    args = {"agent": f"agent_{number % 7}", "task": text(800), "items": [text(110) for _ in range(10)]}
    rendered = (
        f"You are agent {args['agent']}.\n\nTask: {args['task']}\n\n"
        + "".join(f"- {item}\n" for item in args["items"])
        + "\nAnswer in markdown.\n"
    )
    return Step(
        request={"model": "m-1", "step": number, "temperature": 0.2, "note": text(100)},
        args=args,
        prompt=rendered + "".join(f"\n\n{part}" for _, part in contributions),
        contributions=contributions,
        tools=[
            (
                f"tool_{tool}",
                {"query": text(200), "limit": rng.randrange(100), "options": {"b": True, "a": None, "depth": 3}},
                {
                    "rows": [{"id": rng.randrange(10**6), "score": rng.random(), "text": text(530)} for _ in range(5)],
                    "ms": rng.random() * 100,
                },
            )
            for tool in range(2)
        ],
        events=[
            {
                "type": "AddMessageEvent",
                "event_id": f"event-{number * 3 + event}",
                "node_id": "worker",
                "timestamp": "2026-01-01T00:00:00.000Z",
                "message": text(150),
            }
            for event in range(3)
        ],
        report=text(3400),
        result={"usage": {"input": 900, "output": 800, "cached": 10}, "finish": "stop", "score": rng.random()},
    )


def payloads(step: Step) -> list[tuple[str, int | None, Any]]:
    """Return the 17 payloads of a step as (kind, index of the parent, value), a text as str, all else as JSON values."""
    rows: list[tuple[str, int | None, Any]] = [
        ("AgentRequest", None, step.request),
        ("RenderedPrompt", 0, step.prompt),
        ("RefArtifact", 1, {"target": "ak:01HQXK5V8RPZM4J3NHWGC7SDFG", "template": TEMPLATE_ID}),
        ("PromptArgs", 1, step.args),
    ]
    rows += [("PromptContribution", 1, text) for _, text in step.contributions]
    for name, given, got in step.tools:
        call = len(rows)
        rows += [
            ("ToolCallArtifact", 0, {"tool": name}),
            ("ToolInput", call, given),
            ("ToolOutput", call, got),
        ]
    rows += [("EventArtifact", 0, event) for event in step.events]
    rows += [("AgentResult", 0, step.result), ("Report", len(rows), step.report)]
    assert len(rows) == ARTIFACTS_A_STEP
    return rows
