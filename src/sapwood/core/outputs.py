"""Where a node's document goes: a path below docs/ or audits/ in which `<run>`, `<n>` and `<name>` are filled in."""

from __future__ import annotations

import re
from typing import Final

from sapwood.core.ingest_settings import IngestSettings
from sapwood.core.keys import ArtifactKey
from sapwood.core.paths import Refused, safe_path

DOCUMENT_ROOTS: Final = ("docs", "audits")
_PLACEHOLDER = re.compile(r"<([^<>]*)>")


def output_problem(output: str, placeholders: tuple[str, ...]) -> str | None:
    """Return what is wrong with an `output`, or None."""
    for name in _PLACEHOLDER.findall(output):
        if name not in placeholders:
            return f"unknown placeholder <{name[:40]}>"
    verdict = safe_path(_PLACEHOLDER.sub("x", output), IngestSettings())
    if isinstance(verdict, Refused):
        return f"not a safe relative path ({verdict.reason})"
    if verdict[0] not in DOCUMENT_ROOTS or len(verdict) < 2:
        return "outside docs/ and audits/"
    return None


def output_path(output: str, *, run: ArtifactKey, visit: int, name: str = "") -> str:
    """Return the path of one visit's document; `<run>` is the run's ULID, `<n>` the visit, `<name>` a child's name."""
    values = {"run": run.root.last_segment, "n": str(visit), "name": name}
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), output)
