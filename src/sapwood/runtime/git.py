"""git as a program: asked in words, and nobody is asked back.

Of what a repository's own configuration would run only the filters of its attributes do, as git-lfs is one: without
them its files would not be what they are.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

TIMEOUT_S: Final = 20
_SETTINGS: Final = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "commit.gpgsign=false",
    "diff.autoRefreshIndex=false",  # or a look at what differs writes the index
)
_GIT: Final = ("git", "--no-optional-locks", *(word for setting in _SETTINGS for word in ("-c", setting)))
# What would lead git to another repository, as inside one of its hooks.
_ELSEWHERE: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
_ENVIRONMENT: Final = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
NO_VARIABLES: Final[Mapping[str, str]] = MappingProxyType({})


def run_git(
    folder: Path, *words: str, timeout_s: float = TIMEOUT_S, variables: Mapping[str, str] = NO_VARIABLES
) -> subprocess.CompletedProcess[bytes]:
    """Run git in `folder`; raise OSError when it is not there, TimeoutExpired when it takes too long."""
    ours = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    return subprocess.run(
        [*_GIT, *words],
        cwd=folder,
        env={**ours, **_ENVIRONMENT, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )


def ask_git(folder: Path, *words: str) -> bytes | None:
    """Return what git prints, or None when it is not there, fails or takes too long."""
    try:
        done = run_git(folder, *words)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def ask_git_word(folder: Path, *words: str) -> str | None:
    """Return the one line that git prints, or None without one."""
    shown = ask_git(folder, *words)
    return shown.decode(errors="replace").strip() or None if shown is not None else None


def head_commit(folder: Path) -> str | None:
    """Return the commit that is checked out, or None without one."""
    return ask_git_word(folder, "rev-parse", "--verify", "--quiet", "HEAD")


def changed_files(folder: Path, since: str) -> tuple[str, ...]:
    """Return the files that differ between the commit `since` and the one that is checked out now."""
    listed = ask_git(folder, "diff", "--no-ext-diff", "--name-only", "-z", since, "HEAD", "--")
    return tuple(name.decode(errors="replace") for name in (listed or b"").split(b"\0") if name)
