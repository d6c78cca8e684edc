"""One line of a provider's answer, as an object -> an event of the graph, or the result.

Short forms: `delta`, `thought` (text), `tool_call` (name, input, output), `result`, `error`. Any other `type` is the
name of one of the 37 graph events with its payload. Identity, node and time are filled in when left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sapwood.core.canonical import canonical_json
from sapwood.core.envelope import CONTENT_TYPES
from sapwood.core.event_artifacts import event_from_dict
from sapwood.core.events import GraphEvent
from sapwood.core.hashing import utf8
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import DECISIONS
from sapwood.errors import SapwoodError


class Stamp(NamedTuple):
    """What an event gets that does not say it itself."""

    event_id: str
    node: str
    timestamp: str


class LineError(NamedTuple):
    """The provider says that it failed."""

    message: str
    retryable: bool


def read_line(line: Any, stamp: Stamp) -> GraphEvent | ProviderResult | LineError:
    """Return what the line says; raise ValueError with the reason when it says nothing that we know."""
    if not isinstance(line, Mapping) or not isinstance(line.get("type"), str):
        raise ValueError("a line must be an object with a type")
    match line["type"]:
        case "delta" | "thought" as kind:
            return _delta(kind, line, stamp)
        case "tool_call":
            return _tool_call(line, stamp)
        case "result":
            return read_result({name: value for name, value in line.items() if name != "type"})
        case "error":
            return LineError(_text(line, "message"), line.get("retryable", True) is not False)
        case _:
            return _event(line, stamp)


def read_result(data: Mapping[str, Any]) -> ProviderResult:
    """Return the result that `data` describes; raise ValueError for what does not fit."""
    known = ("report", "content_type", "decision", "data", "tokens", "input_tokens")
    unknown = [name for name in data if name not in known]
    if unknown:
        raise ValueError(f"a result has no {unknown[0]!r}; it has {', '.join(known)}")
    report, tokens = data.get("report", ""), data.get("tokens", 0)
    content_type, decision = data.get("content_type", "markdown"), data.get("decision")
    if not isinstance(report, str):
        raise ValueError("the report of a result is text")
    try:
        utf8(report, "the report of a result")
        canonical_json({"result": {"data": data.get("data", {})}})  # records hold it at least that deep
    except SapwoodError as error:  # it could not be recorded
        raise ValueError(str(error)) from None
    if content_type not in CONTENT_TYPES:
        raise ValueError(f"the content_type of a result is one of {', '.join(CONTENT_TYPES)}")
    if decision is not None and decision not in DECISIONS:
        raise ValueError(f"the decision of a result is one of {', '.join(DECISIONS)}, not {str(decision)[:40]!r}")
    if not isinstance(data.get("data", {}), Mapping):
        raise ValueError("the data of a result is an object")
    if not _is_count(tokens):
        raise ValueError("the tokens of a result are a whole number")
    read = data.get("input_tokens")
    if read is not None and not (_is_count(read) and read <= tokens):
        raise ValueError("the input_tokens of a result are a whole number, of its tokens")
    return ProviderResult(report, content_type, decision, dict(data.get("data", {})), tokens, read)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _delta(kind: str, line: Mapping[str, Any], stamp: Stamp) -> GraphEvent:
    name = "NodeStreamDeltaEvent" if kind == "delta" else "NodeThoughtDeltaEvent"
    return _event({"type": name, "delta_content": _text(line, "text")}, stamp)


def _tool_call(line: Mapping[str, Any], stamp: Stamp) -> GraphEvent:
    payload = {
        "type": "ToolCallEvent",
        "tool_call_id": line.get("id", stamp.event_id),
        "title": _text(line, "name"),
        "status": line.get("status", "completed"),
        "raw_input": line.get("input"),
        "raw_output": line.get("output"),
    }
    return _event(payload, stamp)


def _event(line: Mapping[str, Any], stamp: Stamp) -> GraphEvent:
    filled = {"event_id": stamp.event_id, "node_id": stamp.node or None, "timestamp": stamp.timestamp, **line}
    try:
        canonical_json({"event": {"payload": filled}})
        return event_from_dict(filled)
    except SapwoodError as error:
        raise ValueError(str(error)) from None


def _text(line: Mapping[str, Any], name: str) -> str:
    value = line.get(name)
    if not isinstance(value, str):
        raise ValueError(f"a {line['type']} line needs {name}, a text")
    return value
