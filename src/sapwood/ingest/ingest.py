"""Document -> files in the workspace and a manifest that accounts for every block.

Fail-open: whatever goes wrong, the later blocks are still tried, the manifest says what happened, and no exception
leaves, unless the settings ask for one: it is raised last, when all is recorded.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sapwood.clock import now_ms
from sapwood.core.expect import expect
from sapwood.core.fences import parse_fences
from sapwood.core.ingest_manifest import Source, build_events, build_manifest, event
from sapwood.core.ingest_settings import IngestSettings
from sapwood.core.verdicts import Verdict, judge
from sapwood.errors import IngestFailed
from sapwood.ingest.beneath import Blocked, blocked_by
from sapwood.ingest.records import Objects, append_events, file_safe, save_pair
from sapwood.ingest.staging import Draft, Outcome, Parts, Previous
from sapwood.ingest.workspace import WORKSPACE, Project

_logger = logging.getLogger("sapwood.ingest")


@dataclass(frozen=True, slots=True)
class Landed:
    """A block that is on the disk, and what its path held before."""

    verdict: Verdict
    previous: Previous | None


@dataclass(slots=True)
class Ingested:
    """One document's manifest, where it was saved ("" if nowhere), and what landed."""

    manifest: dict[str, Any]
    manifest_path: str = ""
    landed: list[Landed] = field(default_factory=list)
    made: list[Parts] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def ingest_document(
    document: str,
    project_dir: str | os.PathLike[str],
    *,
    run_id: str,
    node_id: str,
    mode: str = "unknown",
    doc_path: str = "",
    source_kind: str = "graph_runtime",
    settings: IngestSettings | Mapping[str, Any] | None = None,
    attempt: int = 1,
) -> dict[str, Any]:
    """Write the files that `document` declares below `<project_dir>/workspace/` and return the v1 manifest.

    Raises only for settings that are wrong, a `project_dir` that is no path, and IngestFailed when the settings say
    `on_error: fail`.
    """
    rules = IngestSettings.of(settings)
    expect(project_dir, (str, os.PathLike), "project_dir", "the path of a folder")
    source = Source(str(run_id), str(node_id), source_kind, mode, doc_path)
    done = ingest(document, Project(project_dir), source, rules, attempt=attempt)
    raise_if_asked(done, rules)
    return done.manifest


def ingest(
    document: str,
    project: Project,
    source: Source,
    settings: IngestSettings,
    *,
    attempt: int = 1,
    clock: Callable[[], int] = now_ms,
) -> Ingested:
    """Ingest one document and return what became of it; raises nothing. See `ingest_document`."""
    problems: list[str] = []
    verdicts = _judged(document, settings, problems)
    done = Ingested({}, problems=problems)
    try:
        with project:
            _write(project, verdicts, done)
            done.manifest = build_manifest(source, verdicts, instant(clock()))
            _save(project, source, attempt, done)
    except Blocked as blocked:
        _refuse_open(verdicts, blocked.reason)
        done.manifest = build_manifest(source, verdicts, instant(clock()))
        problems.append(blocked.reason)
    for problem in problems:
        _logger.error("ingest: %s", problem)
    return done


def raise_if_asked(done: Ingested, settings: IngestSettings) -> None:
    """Raise IngestFailed for a document that did not land whole, if the settings say so: after it is recorded."""
    if settings.on_error == "fail" and (done.problems or done.manifest["summary"]["rejected"]):
        raise IngestFailed(done.manifest, done.problems)


def _judged(document: str, settings: IngestSettings, problems: list[str]) -> list[Verdict]:
    try:
        return judge(parse_fences(document), settings)
    except Exception as error:
        problems.append(f"not parsed: {type(error).__name__}")
        return []


def _write(project: Project, verdicts: list[Verdict], done: Ingested) -> None:
    """Bring what may be written to the disk, and change the verdicts to what became of it."""
    open_at = [place for place, verdict in enumerate(verdicts) if verdict.status == "written"]
    if not open_at:
        return
    drafts = [Draft(verdicts[place].parts, verdicts[place].data) for place in open_at]
    try:
        outcomes, done.made = project.write(WORKSPACE, drafts, Objects(project).keep)
    except Exception as error:
        outcomes = [Outcome(f"io_error: {type(error).__name__}")] * len(drafts)
        done.problems.append(f"not written: {type(error).__name__}")
    for place, outcome in zip(open_at, outcomes, strict=True):
        verdicts[place] = with_outcome(verdicts[place], outcome)
        if not outcome.reason:
            done.landed.append(Landed(verdicts[place], outcome.previous))


def with_outcome(verdict: Verdict, outcome: Outcome) -> Verdict:
    """Return the verdict after the disk had its say."""
    if not outcome.reason:
        return verdict
    return replace(verdict, status="skipped" if outcome.reason == "unchanged" else "rejected", reason=outcome.reason)


def _refuse_open(verdicts: list[Verdict], reason: str) -> None:
    verdicts[:] = [
        with_outcome(verdict, Outcome(reason)) if verdict.status == "written" else verdict for verdict in verdicts
    ]


def _save(project: Project, source: Source, attempt: int, done: Ingested) -> None:
    """Save manifest, undo record and events; what cannot be saved is a problem, not an exception."""
    stem = f"{file_safe(source.node_id)}-{attempt}"
    try:
        done.manifest_path = save_pair(project, file_safe(source.run_id), stem, done.manifest, _undo_record(done))
    except (OSError, Blocked) as error:
        done.problems.append(f"manifest not saved: {_words(error)}")
    events = build_events(done.manifest)
    events += [event(done.manifest, "ERROR", "ingest.exception", None, problem) for problem in done.problems]
    try:
        append_events(project, events)
    except (OSError, Blocked) as error:
        done.problems.append(f"events not saved: {_words(error)}")


def _undo_record(done: Ingested) -> dict[str, Any] | None:
    if not done.landed:
        return None
    return {
        "files": [
            {
                "index": landed.verdict.block.index,
                "parts": landed.verdict.parts,
                "sha256": landed.verdict.sha256,
                "previous": landed.previous,
            }
            for landed in done.landed
        ],
        "made": done.made,
    }


def _words(error: OSError | Blocked) -> str:
    return error.reason if isinstance(error, Blocked) else blocked_by(error).reason


def instant(time_ms: int) -> str:
    """Return a time as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
