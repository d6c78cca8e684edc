"""Git worktrees: a folder and a branch of its own for one delivery, merged when it completes, discarded when not.

Its name is the delivery's, so that whoever goes on after a crash finds what was left and clears it away.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sapwood.core.keys import ArtifactKey
from sapwood.errors import WorktreeFailed
from sapwood.runtime.git import NO_VARIABLES, head_commit, run_git

FOLDER: Final = Path(".sapwood/worktrees")
TIMEOUT_S: Final = 120
_AUTHOR: Final = {"NAME": "Sapwood", "EMAIL": "sapwood@localhost"}


@dataclass(frozen=True, slots=True)
class Worktree:
    """One worktree. `root` is where its files are, `folder` the place in it that the project has in its repository.

    `kept` is where git keeps what it knows of all worktrees of the repository.
    """

    id: str
    repository: Path
    root: Path
    folder: Path
    branch: str
    kept: Path


@dataclass(frozen=True, slots=True)
class Merge:
    """What a merge came to: its commit (None without a change), or why there is none and the files in its way."""

    commit: str | None = None
    why_not: str | None = None
    conflicts: tuple[str, ...] = ()


def worktree_of(project: Path, delivery: ArtifactKey) -> Worktree:
    """Return where the worktree of a delivery is or would be; raise WorktreeFailed outside a git repository."""
    top, kept = (_git(project, "rev-parse", f"--{which}") for which in ("show-toplevel", "git-common-dir"))
    if top.returncode or kept.returncode or head_commit(project) is None:
        raise WorktreeFailed(str(project), "a worktree needs a git repository with a commit")
    repository, name = _path(top), delivery.last_segment.lower()
    root = project / FOLDER / name
    folder = root / project.resolve().relative_to(repository.resolve())
    return Worktree(name, repository, root, folder, f"sapwood/{name}", project / _path(kept))


def create(tree: Worktree) -> None:
    """Make the folder and its branch from what is checked out."""
    with _alone(tree):
        _do(tree.repository, "worktree", "add", "--quiet", "-b", tree.branch, str(tree.root), "HEAD")


def merge(tree: Worktree, message: str) -> Merge:
    """Commit what was changed and merge it into what is checked out; leave that as it was when they conflict."""
    author = _author(tree.repository)
    _do(tree.root, "add", "--all")
    if _git(tree.root, "diff", "--cached", "--quiet").returncode:
        _do(tree.root, "commit", "--quiet", "--message", message, variables=author)
    if head_commit(tree.root) == head_commit(tree.repository):
        return Merge()
    with _alone(tree):
        words = ("merge", "--no-ff", "--quiet", "--message", message, tree.branch)
        done = _git(tree.repository, *words, variables=author)
        if done.returncode == 0:
            return Merge(head_commit(tree.repository))
        listed = _git(tree.repository, "diff", "--name-only", "--diff-filter=U", "-z").stdout
        conflicts = tuple(os.fsdecode(name) for name in listed.split(b"\0") if name)
        _git(tree.repository, "merge", "--abort")
    return Merge(None, f"conflicts in {', '.join(conflicts)}" if conflicts else _words(done), conflicts)


def discard(tree: Worktree, *, keep_branch: bool = False) -> bool:
    """Remove the folder, and its branch unless that is to stay; tell whether there was one."""
    with _alone(tree):
        has_branch = _git(tree.repository, "rev-parse", "--verify", "--quiet", tree.branch).returncode == 0
        is_there = tree.root.exists() or has_branch
        _git(tree.repository, "worktree", "remove", "--force", "--force", str(tree.root))
        _git(tree.repository, "worktree", "prune")
        if not keep_branch:
            _git(tree.repository, "branch", "--quiet", "-D", tree.branch)
    return is_there


@contextmanager
def _alone(tree: Worktree) -> Iterator[None]:
    """Let one at a time touch what is checked out, and what git keeps of all worktrees of the repository."""
    folder = tree.root.parent
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    with (tree.kept / "sapwood.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _do(folder: Path, *words: str, variables: Mapping[str, str] = NO_VARIABLES) -> None:
    done = _git(folder, *words, variables=variables)
    if done.returncode:
        raise WorktreeFailed(str(folder), f"git {words[0]}: {_words(done)}")


def _path(done: subprocess.CompletedProcess[bytes]) -> Path:
    return Path(os.fsdecode(done.stdout.removesuffix(b"\n")))


def _words(done: subprocess.CompletedProcess[bytes]) -> str:
    said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return said[0][:200] if said else f"exit code {done.returncode}"


def _git(folder: Path, *words: str, variables: Mapping[str, str] = NO_VARIABLES) -> subprocess.CompletedProcess[bytes]:
    try:
        return run_git(folder, *words, timeout_s=TIMEOUT_S, variables=variables)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorktreeFailed(str(folder), f"git {words[0]}: {error}") from error


def _author(repository: Path) -> dict[str, str]:
    """Return who commits, for a repository that says nobody; its own settings win."""
    if "GIT_AUTHOR_EMAIL" in os.environ or _git(repository, "config", "user.email").returncode == 0:
        return {}
    return {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _AUTHOR.items()}
