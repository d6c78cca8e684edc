"""One context entry <-> its exact text: a header of fixed lines, then the content between two delimiters.

The content passes verbatim and may hold anything, delimiters and whole envelopes included. What makes that safe is
that nobody searches in it: a reader takes the fixed header lines, then `included_chars` units, then the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sapwood.core.instants import find_instant
from sapwood.core.integers import MAX_ID
from sapwood.core.lengths import count_units
from sapwood.core.nodekey import NODE_KEY
from sapwood.errors import InvalidEnvelope

if TYPE_CHECKING:
    from sapwood.core.handoff import UpstreamArtifact

HEADER: Final = "ALPHRED_UPSTREAM_ARTIFACT v"
BEGIN: Final = "<<<BEGIN>>>"
END: Final = "<<<END>>>"
CONTENT_TYPES: Final = ("text", "markdown", "json", "diff")


ID_PATTERN: Final = "[1-9][0-9]{0,18}"
INSTANT_PATTERN: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}Z"
_COUNT = "0|[1-9][0-9]{0,18}"
TRUNCATION_PATTERN: Final = f"""truncation:
  applied: (?P<applied>true|false)
  method: (?P<method>none|head_tail)
  original_chars: (?P<original_chars>{_COUNT})
  included_chars: (?P<included_chars>{_COUNT})
  dropped_chars: (?P<dropped_chars>{_COUNT})
content:
{BEGIN}
"""
_HEADER_LINES = re.compile(
    f"""{HEADER}1
policy_version: (?P<policy_version>1)
untrusted_data: (?P<untrusted_data>true)
workflow_run_id: (?P<workflow_run_id>{ID_PATTERN})
target_node_key: (?P<target_node_key>{NODE_KEY.pattern})
source_node_key: (?P<source_node_key>{NODE_KEY.pattern})
source_run_node_id: (?P<source_run_node_id>{ID_PATTERN})
source_attempt: (?P<source_attempt>{ID_PATTERN})
artifact_id: (?P<artifact_id>{ID_PATTERN})
artifact_type: (?P<artifact_type>report)
content_type: (?P<content_type>{"|".join(CONTENT_TYPES)})
created_at: (?P<created_at>{INSTANT_PATTERN})
sha256: (?P<sha256>[0-9a-f]{{64}})
{TRUNCATION_PATTERN}"""
)
_INTEGERS = {"policy_version", "workflow_run_id", "source_run_node_id", "source_attempt", "artifact_id"}
_INTEGERS |= {"original_chars", "included_chars", "dropped_chars"}
_TRUTHS = {"untrusted_data", "applied"}


@dataclass(frozen=True, slots=True)
class Envelope:
    """Context Envelope v1: one field per header line, under the line's name, and the included content."""

    workflow_run_id: int
    target_node_key: str
    source_node_key: str
    source_run_node_id: int
    source_attempt: int
    artifact_id: int
    content_type: str
    created_at: str
    sha256: str
    applied: bool
    method: str
    original_chars: int
    included_chars: int
    dropped_chars: int
    content: str
    artifact_type: str = "report"
    policy_version: int = 1
    untrusted_data: bool = True


def write_envelope(source: UpstreamArtifact, text: str, chars: int, digest: str, run: int, target: str) -> str:
    """Return the exact entry for `text`, the `chars` units that are included of a report.

    It is made in one piece, so that a long text is copied once.
    """
    return (
        f"{HEADER}1\npolicy_version: 1\nuntrusted_data: true\nworkflow_run_id: {run}\ntarget_node_key: {target}\n"
        f"source_node_key: {source.node_key}\nsource_run_node_id: {source.run_node_id}\n"
        f"source_attempt: {source.attempt}\nartifact_id: {source.artifact_id}\nartifact_type: report\n"
        f"content_type: {source.content_type}\ncreated_at: {source.created_at}\nsha256: {digest}\n"
        f"{write_truncation(source.chars, chars)}{text}\n{END}"
    )


def parse_envelope(text: str) -> Envelope:
    """Read one whole context entry back, by position and `included_chars`; raise InvalidEnvelope if it is not exact."""
    return Envelope(**read_entry(_HEADER_LINES, text))


def write_truncation(original: int, included: int) -> str:
    """Return the lines before the content, as every kind of entry has them: the counts and the first delimiter."""
    applied, method = ("true", "head_tail") if included < original else ("false", "none")
    return (
        f"truncation:\n  applied: {applied}\n  method: {method}\n  original_chars: {original}\n"
        f"  included_chars: {included}\n  dropped_chars: {original - included}\n"
        f"content:\n{BEGIN}\n"
    )


def read_entry(header_lines: re.Pattern[str], text: str) -> dict[str, Any]:
    """Return the fields of an entry with this header, typed, and its content; raise InvalidEnvelope if inexact."""
    header = header_lines.match(text) if isinstance(text, str) else None
    if header is None:
        raise InvalidEnvelope("the header lines are not exact")
    fields = {name: _typed(name, value) for name, value in header.groupdict().items()}
    content = text[header.end() : len(text) - len(END) - 1]
    if text[header.end() + len(content) :] != f"\n{END}":
        raise InvalidEnvelope(f"it does not end with a line {END}")
    _check(fields, content)
    return {**fields, "content": content}


def _typed(name: str, value: str) -> int | bool | str:
    if name in _TRUTHS:
        return value == "true"
    if name not in _INTEGERS:
        return value
    if int(value) > MAX_ID:
        raise InvalidEnvelope(f"{name} is over {MAX_ID}")
    return int(value)


def _check(fields: dict[str, Any], content: str) -> None:
    if count_units(content, "content") != fields["included_chars"]:
        raise InvalidEnvelope(f"the content does not end after included_chars, {fields['included_chars']} units")
    if fields["included_chars"] + fields["dropped_chars"] != fields["original_chars"]:
        raise InvalidEnvelope("included_chars and dropped_chars do not add up to original_chars")
    if not fields["applied"] == (fields["method"] == "head_tail") == (fields["dropped_chars"] > 0):
        raise InvalidEnvelope("applied, method and dropped_chars contradict each other")
    if find_instant(fields["created_at"]) is None:
        raise InvalidEnvelope("created_at is no instant")
