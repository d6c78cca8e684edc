"""The state of a project directory when a run starts, read without changing anything in it.

With git: commit, branch, whether anything differs, and hashes of what differs. Without: one hash over all files.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

GIT_TIMEOUT_S: Final = 20
MAX_TREE_FILES: Final = 20_000
MAX_TREE_BYTES: Final = 256 * 1024 * 1024
# No lock, no refreshed index, and nothing that the repository's own configuration could have run.
GIT: Final = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
ELSEWHERE: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
ENVIRONMENT: Final = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def take_snapshot(project: Path, ignore: Collection[str] = ()) -> dict[str, Any]:
    """Return what identifies the project's state; `ignore` names files at its top that are not the project's."""
    found = _git_snapshot(project, ignore)
    return found if found is not None else _tree_snapshot(project, ignore)


def head_commit(project: Path) -> str | None:
    """Return the commit that is checked out, or None without one."""
    return _text(_git(project, "rev-parse", "--verify", "--quiet", "HEAD"))


def changed_files(project: Path, since: str) -> tuple[str, ...]:
    """Return the files that differ between the commit `since` and the one that is checked out now."""
    listed = _git(project, "diff", "--no-ext-diff", "--name-only", "-z", since, "HEAD", "--")
    return tuple(name.decode(errors="replace") for name in (listed or b"").split(b"\0") if name)


def _git_snapshot(project: Path, ignore: Collection[str]) -> dict[str, Any] | None:
    if _git(project, "rev-parse", "--is-inside-work-tree") != b"true\n":
        return None
    commit = head_commit(project)
    base = commit or _text(_git(project, "hash-object", "-t", "tree", "/dev/null"))
    diff = _git(project, "diff", "--no-ext-diff", "--no-textconv", "--binary", base or "HEAD", "--", ".")
    listed = _git(project, "ls-files", "--others", "--exclude-standard", "-z")
    if diff is None or listed is None:
        return None
    untracked = sorted(name for name in listed.split(b"\0") if name and os.fsdecode(name) not in ignore)
    return {
        "kind": "git",
        "commit": commit,
        "branch": _text(_git(project, "symbolic-ref", "--short", "--quiet", "HEAD")),
        "dirty": bool(diff or untracked),
        "diff_sha256": hashlib.sha256(diff).hexdigest(),
        "untracked_sha256": hashlib.sha256(b"\0".join(untracked)).hexdigest(),
        "untracked_files": len(untracked),
    }


def git_environment() -> dict[str, str]:
    """Return our environment without what would lead git to another repository, as inside one of its hooks."""
    return {**{name: value for name, value in os.environ.items() if name not in ELSEWHERE}, **ENVIRONMENT}


def _git(project: Path, *words: str) -> bytes | None:
    """Return what git prints, or None when it is not there, fails or takes too long."""
    try:
        done = subprocess.run(
            [*GIT, *words],
            cwd=project,
            env=git_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _text(shown: bytes | None) -> str | None:
    return shown.decode(errors="replace").strip() or None if shown is not None else None


def _tree_snapshot(project: Path, ignore: Collection[str]) -> dict[str, Any]:
    """Hash names, kinds and contents in order; what lies beyond the limits counts with its size alone."""
    total = hashlib.sha256()
    files = size_bytes = 0
    is_whole = True
    for name, path in _walk(project, ignore):
        files += 1
        try:
            about = path.lstat()
            size_bytes += about.st_size
            if files > MAX_TREE_FILES or size_bytes > MAX_TREE_BYTES:
                is_whole = False
                fact = f"size {about.st_size}"
            else:
                fact = _fact(path, about.st_mode)
        except OSError as error:
            fact = f"unreadable {error.errno}"
        total.update(f"{fact}\0".encode() + os.fsencode(name) + b"\0")
    return {"kind": "tree", "sha256": total.hexdigest(), "files": files, "is_whole": is_whole}


def _fact(path: Path, mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "link " + hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
    if stat.S_ISREG(mode):
        with path.open("rb") as file:
            return "file " + hashlib.file_digest(file, "sha256").hexdigest()
    return "other"


def _walk(project: Path, ignore: Collection[str]) -> Iterator[tuple[str, Path]]:
    for folder, folders, names in os.walk(project):
        is_top = Path(folder) == project
        folders[:] = sorted(name for name in folders if name != ".git" and not (is_top and name in ignore))
        for name in sorted(names):
            if not (is_top and name in ignore):
                path = Path(folder) / name
                yield str(path.relative_to(project)), path
