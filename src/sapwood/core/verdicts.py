"""Blocks + rules -> what may be written, and why the rest may not: every check that needs no disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sapwood.core.fences import Block
from sapwood.core.hashing import hash_bytes
from sapwood.core.ingest_settings import IngestSettings
from sapwood.core.paths import Refused, safe_path


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a block: `written`, `skipped` or `rejected`, its target below the workspace, its bytes."""

    block: Block
    status: str
    reason: str
    parts: tuple[str, ...] = ()
    data: bytes = b""
    sha256: str = ""


def judge(blocks: Iterable[Block], settings: IngestSettings) -> list[Verdict]:
    """Return one verdict a block; those still `written` have different targets and are within all limits."""
    verdicts: list[Verdict] = []
    total_bytes = 0
    for block in blocks:
        verdict = _judge_one(block, settings)
        if verdict.status == "written":
            reason = _over_limit(verdict, total_bytes, settings)
            if reason:
                verdict = replace(verdict, status="rejected", reason=reason, parts=())
            else:
                total_bytes += len(verdict.data)
        verdicts.append(verdict)
    return _without_duplicates(verdicts)


def _judge_one(block: Block, settings: IngestSettings) -> Verdict:
    try:
        data = block.content.encode()
    except UnicodeEncodeError:
        status, reason = ("skipped", block.reason) if block.status == "skipped" else ("rejected", "encoding")
        return Verdict(block, status, reason)
    sha256 = "" if block.reason == "unterminated" else hash_bytes(data)
    if block.status == "skipped":
        return Verdict(block, "skipped", block.reason, (), data, sha256)
    parts = safe_path(block.declared_file, settings)
    if isinstance(parts, Refused):
        return Verdict(block, "rejected", parts.reason, (), data, sha256)
    if block.status == "rejected":
        return Verdict(block, "rejected", block.reason)
    return Verdict(block, "written", "", parts, data, sha256)


def _over_limit(verdict: Verdict, total_bytes: int, settings: IngestSettings) -> str:
    limits = settings.limits
    if len(verdict.data) > limits.max_file_bytes:
        return "too_large"
    if total_bytes + len(verdict.data) > limits.max_total_bytes:
        return "total_bytes"
    return "too_many_blocks" if verdict.block.index >= limits.max_blocks else ""


def _without_duplicates(verdicts: list[Verdict]) -> list[Verdict]:
    """Let the last block of each path win."""
    last = {verdict.parts: verdict.block.index for verdict in verdicts if verdict.status == "written"}
    return [
        replace(verdict, status="skipped", reason="duplicate_path")
        if verdict.status == "written" and last[verdict.parts] != verdict.block.index
        else verdict
        for verdict in verdicts
    ]
