"""One ingested document as artifacts of its run: the manifest, each file that landed, and what its path held before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from sapwood.core.artifacts import IngestedFile, IngestManifest
from sapwood.core.ingest_manifest import shown
from sapwood.core.keys import ArtifactKey
from sapwood.ingest.beneath import Blocked
from sapwood.ingest.ingest import Ingested, Landed
from sapwood.ingest.records import Objects
from sapwood.ingest.workspace import WORKSPACE, Project


def artifacts_of(
    done: Ingested,
    project_dir: str | os.PathLike[str],
    parent: ArtifactKey,
    mint: Callable[[ArtifactKey], ArtifactKey],
) -> Iterator[IngestManifest | IngestedFile]:
    """Yield the manifest under `parent`, and under it each written file, after what it replaced.

    `mint` makes a new key below the one it is given.
    """
    key = mint(parent)
    yield IngestManifest(key, manifest=done.manifest)
    for landed in done.landed:
        before = _before(landed, project_dir, mint(key)) if landed.previous is not None else None
        if before is not None:
            yield before
        verdict = landed.verdict
        yield IngestedFile(
            mint(key),
            data=verdict.data,
            workspace_path=_path(landed),
            sha256=verdict.sha256,
            block_index=verdict.block.index,
            role="written",
            previous=before.key if before is not None else None,
        )


def _before(landed: Landed, project_dir: str | os.PathLike[str], key: ArtifactKey) -> IngestedFile | None:
    """Return what the path held; None when it is no longer kept."""
    assert landed.previous is not None
    with suppress(OSError, Blocked), Project(project_dir) as project:
        return IngestedFile(
            key,
            data=Objects(project).load(landed.previous.sha256),
            workspace_path=_path(landed),
            sha256=landed.previous.sha256,
            block_index=landed.verdict.block.index,
            role="before",
        )
    return None


def _path(landed: Landed) -> str:
    return shown("/".join((WORKSPACE, *landed.verdict.parts)))
