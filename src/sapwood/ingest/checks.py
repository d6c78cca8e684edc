"""Look at what landed with the project's validators, after writing; results stand beside the manifest, never in it.

A validator is a command that gets the file's bytes on its input (or their path as `{file}`) and says yes with exit
code 0. It runs without the caller's environment and leaves nothing behind.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sapwood.core.ingest_manifest import shown
from sapwood.ingest.ingest import Ingested
from sapwood.ingest.records import MANIFESTS, encode, save_own
from sapwood.ingest.workspace import WORKSPACE, Project

Validators = Mapping[str, Sequence[str]]

# Compiles and throws the result away: no cache is written, nothing of the file is run. Says where, not what.
_COMPILE: Final = """
import sys
try:
    compile(sys.stdin.buffer.read(), "file", "exec", dont_inherit=True)
except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
    sys.exit(f"{type(error).__name__} in line {getattr(error, 'lineno', None)}")
"""
_PYTHON: Final = (sys.executable, "-I", "-S", "-c", _COMPILE)
_NODE: Final = ("node", "--check", "{file}")
DEFAULT_VALIDATORS: Final[Validators] = {".py": _PYTHON, ".js": _NODE, ".mjs": _NODE, ".cjs": _NODE}
_TIMEOUT_S: Final = 30
_MAX_WORDS: Final = 200


def check_landed(
    done: Ingested, project_dir: Path, validators: Validators = DEFAULT_VALIDATORS
) -> list[dict[str, Any]]:
    """Run the validator of each written file's suffix and return what each said, in block order."""
    results = []
    for landed in done.landed:
        command = validators.get(Path(landed.verdict.parts[-1]).suffix)
        if command is not None:
            path = project_dir.joinpath(WORKSPACE, *landed.verdict.parts)
            outcome = _run(command, path, landed.verdict.data)
            shown_path = shown("/".join((WORKSPACE, *landed.verdict.parts)))
            results.append({"index": landed.verdict.block.index, "path": shown_path, **outcome})
    return results


def _run(command: Sequence[str], path: Path, data: bytes) -> dict[str, Any]:
    tool = Path(command[0]).name
    if shutil.which(command[0]) is None:
        return {"validator": tool, "ok": None, "words": "not installed"}
    words = [word.replace("{file}", str(path.absolute())) for word in command]
    try:
        done = subprocess.run(
            words,
            input=data,
            capture_output=True,
            timeout=_TIMEOUT_S,
            cwd=path.absolute().anchor,
            env={"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"validator": tool, "ok": None, "words": type(error).__name__}
    return {"validator": tool, "ok": done.returncode == 0, "words": _said(done.stderr) if done.returncode else ""}


def _said(output: bytes) -> str:
    """Return the one line that names the error: validators also print the file's text, which is not ours to repeat."""
    lines = [line for line in output.decode(errors="replace").splitlines() if "Error" in line.split(":")[0]]
    return shown(lines[0] if lines else "refused")[:_MAX_WORDS]


def save_checks(project: Project, manifest_path: str, results: Sequence[Mapping[str, Any]]) -> None:
    """Write the results beside the manifest: `<manifest>.checks.json`."""
    *_, run, name = manifest_path.split("/")
    save_own(project, (*MANIFESTS, run), f"{name.removesuffix('.json')}.checks.json", encode({"checks": list(results)}))
