"""Verdicts -> the v1 manifest and the events of one document. Nothing in either repeats content or a credential."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sapwood.core.redact import redact
from sapwood.core.verdicts import Verdict

MODES: Final = ("single", "self_critique", "team")
_MAX_SHOWN_CHARS: Final = 65_536
_FORMAT_ONLY: Final = "skipped"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a document came from."""

    run_id: str
    node_id: str
    kind: str
    mode: str
    doc_path: str


def shown(text: str) -> str:
    """Return `text` as it may stand in a manifest or log: no credential, no lone surrogate, of bounded length."""
    # A little more than is kept is looked at, so that no credential is cut in two and missed.
    return redact(text[: _MAX_SHOWN_CHARS + 8192])[:_MAX_SHOWN_CHARS].encode("utf-8", "backslashreplace").decode()


def build_manifest(source: Source, verdicts: Sequence[Verdict], ts: str) -> dict[str, Any]:
    """Return the manifest, exactly in the v1 schema."""
    counts = dict.fromkeys(("written", "skipped", "rejected"), 0)
    for verdict in verdicts:
        counts[verdict.status] += 1
    return {
        "version": "1",
        "run_id": shown(source.run_id),
        "node_id": shown(source.node_id),
        "source": {
            "kind": source.kind,
            "mode": source.mode if source.mode in MODES else "unknown",
            "doc_path": shown(source.doc_path),
        },
        "artifacts": [_entry(verdict) for verdict in verdicts],
        "summary": {"total_blocks": len(verdicts), **counts},
        "ts": ts,
    }


def _entry(verdict: Verdict) -> dict[str, Any]:
    block = verdict.block
    is_named = verdict.status == "written" or verdict.reason in ("unchanged", "duplicate_path")
    return {
        "index": block.index,
        "lang": shown(block.lang),
        "declared_file": shown(block.declared_file),
        "workspace_path": shown("/".join(("workspace", *verdict.parts))) if is_named else "",
        "bytes": len(verdict.data),
        "sha256": verdict.sha256,
        "status": verdict.status,
        "reason": verdict.reason,
    }


def build_events(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one event a block, and one more when the document has none that could be ingested."""
    events = [
        event(manifest, _level(entry), f"ingest.{entry['status']}", entry["index"], entry["reason"])
        for entry in manifest["artifacts"]
    ]
    if all(_is_format(entry) for entry in manifest["artifacts"]):
        events.append(event(manifest, "WARNING", "ingest.no_blocks", None, "no block that could be ingested"))
    return events


def event(manifest: dict[str, Any], level: str, name: str, index: int | None, reason: str) -> dict[str, Any]:
    """Return one line of the event log."""
    return {
        "ts": manifest["ts"],
        "level": level,
        "event": name,
        "run_id": manifest["run_id"],
        "node_id": manifest["node_id"],
        "doc_path": manifest["source"]["doc_path"],
        "index": index,
        "reason": shown(reason),
    }


def _is_format(entry: dict[str, Any]) -> bool:
    return entry["status"] == _FORMAT_ONLY and entry["reason"] not in ("unchanged", "duplicate_path")


def _level(entry: dict[str, Any]) -> str:
    if entry["status"] == "written" or entry["reason"] == "unchanged":
        return "INFO"
    return "WARNING" if entry["status"] == "skipped" else "ERROR"
