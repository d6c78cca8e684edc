"""Runs one case of the corpus in a process of its own: mounts that vanish with it, a limit that stays with it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from sapwood.core.ingest_manifest import Source
from sapwood.core.ingest_settings import IngestSettings
from sapwood.ingest.ingest import ingest
from tests.ingest.corpus import Scene, expand, project_of


def main() -> None:
    job: dict[str, Any] = json.load(sys.stdin)
    scene = Scene(Path(job["folder"]) / "project", Path(job["folder"]) / "OUT")
    project = project_of(scene, job["way"])
    for row in job["case"].get("setup", []):
        _set_up(scene, row)
    source = Source("run", "node", "graph_runtime", "unknown", "docs/x.md")
    done = ingest(expand(job["case"]["doc"]), project, source, IngestSettings.of(job["case"].get("limits")))
    print(json.dumps(done.manifest))


def _set_up(scene: Scene, row: list[Any]) -> None:
    verb, place, *more = row
    if verb == "rlimit_nofile":  # as many as are open: the next one fails
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) - 1, place))
        return
    folder = scene.project / place
    folder.mkdir()
    source = scene.outside(more[0]) if more else str(scene.out)
    subprocess.run(["mount", "--bind", source, str(folder)], check=True)
    if verb == "ro_mount":
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)


if __name__ == "__main__":
    main()
