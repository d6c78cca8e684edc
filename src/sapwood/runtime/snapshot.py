"""The state of a project directory when a run starts, read without changing anything in it.

With git: commit, branch, whether anything differs, and hashes of what differs. Without: one hash over all files.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from sapwood.runtime.git import ask_git, ask_git_word, head_commit

MAX_TREE_FILES: Final = 20_000
MAX_TREE_BYTES: Final = 256 * 1024 * 1024


def take_snapshot(project: Path, ignore: Collection[str] = ()) -> dict[str, Any]:
    """Return what identifies the project's state; `ignore` names files at its top that are not the project's."""
    found = _git_snapshot(project, ignore)
    return found if found is not None else _tree_snapshot(project, ignore)


def _git_snapshot(project: Path, ignore: Collection[str]) -> dict[str, Any] | None:
    if ask_git(project, "rev-parse", "--is-inside-work-tree") != b"true\n":
        return None
    commit = head_commit(project)
    base = commit or ask_git_word(project, "hash-object", "-t", "tree", "/dev/null")
    diff = ask_git(project, "diff", "--no-ext-diff", "--no-textconv", "--binary", base or "HEAD", "--", ".")
    listed = ask_git(project, "ls-files", "--others", "--exclude-standard", "-z")
    if diff is None or listed is None:
        return None
    untracked = sorted(name for name in listed.split(b"\0") if name and os.fsdecode(name) not in ignore)
    return {
        "kind": "git",
        "commit": commit,
        "branch": ask_git_word(project, "symbolic-ref", "--short", "--quiet", "HEAD"),
        "dirty": bool(diff or untracked),
        "diff_sha256": hashlib.sha256(diff).hexdigest(),
        "untracked_sha256": hashlib.sha256(b"\0".join(untracked)).hexdigest(),
        "untracked_files": len(untracked),
    }


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
