"""Context beyond policy v1, each kind with its own version name, and off unless the workflow asks for it.

- retry context: attempt n > 1 of a node sees how attempt n-1 failed;
- failure-route context: a node reached by a failure edge sees the log of the node that failed;
- join context: a join sees one line for each child of its fan-out, the failed ones first.

An extension is text of agents and tools like any other: bounded, enveloped, marked untrusted, read back by position.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from sapwood.core.envelope import END, ID_PATTERN, INSTANT_PATTERN, TRUNCATION_PATTERN, read_entry, write_truncation
from sapwood.core.instants import find_instant
from sapwood.core.integers import is_id, is_integer
from sapwood.core.lengths import Cut, encode_counted, head_tail, shorten
from sapwood.core.nodekey import NODE_KEY, is_node_key
from sapwood.errors import InvalidHandoff

RETRY: Final = "retry_context_v1"
FAILURE_ROUTE: Final = "failure_route_context_v1"
JOIN: Final = "join_context_v1"
NAMES: Final = (RETRY, FAILURE_ROUTE, JOIN)
HEADER: Final = "SAPWOOD_CONTEXT_EXTENSION v1"

_HEADER_LINES = re.compile(
    f"""{HEADER}
extension: (?P<extension>{"|".join(NAMES)})
untrusted_data: (?P<untrusted_data>true)
workflow_run_id: (?P<workflow_run_id>{ID_PATTERN})
target_node_key: (?P<target_node_key>{NODE_KEY.pattern})
source_node_key: (?P<source_node_key>{NODE_KEY.pattern})
source_run_node_id: (?P<source_run_node_id>{ID_PATTERN})
source_attempt: (?P<source_attempt>{ID_PATTERN})
created_at: (?P<created_at>{INSTANT_PATTERN})
sha256: (?P<sha256>[0-9a-f]{{64}})
{TRUNCATION_PATTERN}"""
)


@dataclass(frozen=True, slots=True)
class Extension:
    """One text to hand on, where it comes from, and the most that may be used of it."""

    name: str
    source_node_key: str
    source_run_node_id: int
    source_attempt: int
    created_at: str
    content: str
    max_chars: int
    chars: int = field(init=False, repr=False, compare=False)
    utf8: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise InvalidHandoff("extension", self.name, f"one of {', '.join(NAMES)}")
        if not is_node_key(self.source_node_key):
            raise InvalidHandoff("source_node_key", self.source_node_key, f"a node key, {NODE_KEY.pattern}")
        for name in ("source_run_node_id", "source_attempt"):
            if not is_id(getattr(self, name)):
                raise InvalidHandoff(name, getattr(self, name), "a positive integer below 2**63")
        instant = find_instant(self.created_at)
        if instant is None:
            raise InvalidHandoff("created_at", self.created_at, "an ISO 8601 instant with its zone")
        object.__setattr__(self, "created_at", instant)
        if not is_integer(self.max_chars) or self.max_chars < 0:
            raise InvalidHandoff("max_chars", self.max_chars, "an integer of 0 or more")
        if not isinstance(self.content, str):
            raise InvalidHandoff("content", self.content, "text")
        data, chars = encode_counted(self.content, "content")
        object.__setattr__(self, "utf8", data)
        object.__setattr__(self, "chars", chars)


@dataclass(frozen=True, slots=True)
class ExtensionEnvelope:
    """An extension's entry as it was read back: one field per header line, and the included content."""

    extension: str
    workflow_run_id: int
    target_node_key: str
    source_node_key: str
    source_run_node_id: int
    source_attempt: int
    created_at: str
    sha256: str
    applied: bool
    method: str
    original_chars: int
    included_chars: int
    dropped_chars: int
    content: str
    untrusted_data: bool = True


@dataclass(frozen=True, slots=True)
class ExtensionPolicy:
    """The most each extension may use; it is taken off the policy's total before reports are placed."""

    max_retry_chars: int = 4_000
    max_failure_route_chars: int = 8_000
    max_join_chars: int = 8_000
    max_join_line_chars: int = 240

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not is_integer(getattr(self, name)) or getattr(self, name) < 0:
                raise InvalidHandoff(name, getattr(self, name), "an integer of 0 or more")


@dataclass(frozen=True, slots=True)
class JoinChild:
    """One child of a fan-out as the join sees it; `summary` is the child's own text."""

    node_key: str
    sequence_index: int
    run_node_id: int
    attempt: int
    status: str
    summary: str

    def __post_init__(self) -> None:
        for name in ("node_key", "status"):
            if not is_node_key(getattr(self, name)):
                raise InvalidHandoff(name, getattr(self, name), f"a word of the form {NODE_KEY.pattern}")


def join_table(children: Iterable[JoinChild], max_line_chars: int) -> str:
    """Return a count, then one line for each child: the failed first, then in workflow order.

    White space in a summary becomes single blanks, so no child can write a second line.
    """
    ordered = sorted(children, key=lambda c: (c.status != "failed", c.sequence_index, c.node_key, c.run_node_id))
    failed = sum(child.status == "failed" for child in ordered)
    lines = [f"children: {len(ordered)}, failed: {failed}"]
    for child in ordered:
        summary = " ".join(child.summary.split())
        lines.append(
            shorten(f"{child.status} | {child.node_key} | attempt {child.attempt} | {summary}", max_line_chars)
        )
    return "\n".join(lines)


def write_extension(extension: Extension, cut: Cut, digest: str, workflow_run_id: int, target_node_key: str) -> str:
    """Return the exact text of an extension's context entry."""
    return (
        f"{HEADER}\nextension: {extension.name}\nuntrusted_data: true\n"
        f"workflow_run_id: {workflow_run_id}\ntarget_node_key: {target_node_key}\n"
        f"source_node_key: {extension.source_node_key}\nsource_run_node_id: {extension.source_run_node_id}\n"
        f"source_attempt: {extension.source_attempt}\ncreated_at: {extension.created_at}\nsha256: {digest}\n"
        f"{write_truncation(cut.original_chars, cut.included_chars)}{cut.text}\n{END}"
    )


def parse_extension(text: str) -> ExtensionEnvelope:
    """Read an extension's entry back, by position and `included_chars`; raise InvalidEnvelope if it is not exact."""
    return ExtensionEnvelope(**read_entry(_HEADER_LINES, text))


def cut_extension(extension: Extension, remaining_chars: int) -> Cut:
    """Return what fits of the extension, by its own bound and by what is left of the total."""
    return head_tail(extension.content, min(extension.max_chars, remaining_chars), extension.chars)
