"""The path corpus: its cases, the trees they need, and what must hold after each of them.

Trees are built inside a temporary directory only, and every link, mount and device in them leads to something
harmless inside it: with every guard broken, a case can change nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapwood.ingest.beneath import nofollow_opener, openat2_opener
from sapwood.ingest.workspace import Project

_CORPORA = Path(__file__).parent.parent / "corpora"
CASES: list[dict[str, Any]] = [
    case
    for name in ("paths.json", "paths_more.json")
    for case in json.loads((_CORPORA / name).read_text("utf-8", "surrogatepass"))["cases"]
]
IN_CHILD = ("bind_mount", "ro_mount", "rlimit_nofile")
OPENERS = {"openat2": openat2_opener, "nofollow": nofollow_opener}

_REPEAT = re.compile(r"@@REPEAT:(.):([0-9]+)@@", re.DOTALL)
_REPEAT_LINE = re.compile(r"@@REPEATLINE:(.*?):([0-9]+)@@", re.DOTALL)
_BLOCKS = re.compile(r"@@BLOCKS:([0-9]+):([0-9]+)@@")


def expand(document: str) -> str:
    """Return a case's document with its shorthands written out."""
    document = _BLOCKS.sub(lambda found: blocks(int(found[1]), int(found[2])), document)
    document = _REPEAT_LINE.sub(lambda found: f"{found[1]}\n" * int(found[2]), document)
    return _REPEAT.sub(lambda found: found[1] * int(found[2]), document)


def blocks(count: int, size: int) -> str:
    """Return a document of `count` file blocks of `size` bytes."""
    return "".join(f"```text file=f{number}.txt\n{'x' * max(0, size - 1)}\n```\n" for number in range(count))


@dataclass(frozen=True)
class Scene:
    """A project, and OUT, the directory beside it that nothing may change."""

    project: Path
    out: Path

    @classmethod
    def build(cls, folder: Path) -> Scene:
        scene = cls(folder / "project", folder / "OUT")
        (scene.project / "workspace").mkdir(parents=True)
        (scene.out / "etc").mkdir(parents=True)
        (scene.out / "target").write_text("harmless\n")
        (scene.out / "etc" / "passwd").write_text("harmless\n")
        return scene

    def outside(self, text: str) -> str:
        return str(self.out) + text.removeprefix("OUT") if text.startswith("OUT") else text

    def set_up(self, row: list[Any]) -> None:
        """Apply one row of a case's setup."""
        verb, place, *more = row
        path = self.project / str(place)
        match verb:
            case "symlink":
                path.symlink_to(self.outside(more[0]))
            case "replace_root_symlink":
                path.rmdir()
                path.symlink_to(self.outside(more[0]))
            case "fifo":
                os.mkfifo(path)
            case "socket":
                with _inside(path.parent), socket.socket(socket.AF_UNIX) as listener:
                    listener.bind(path.name)
            case "mknod":  # whatever device the case names: this one swallows what is written to it
                os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
            case "hardlink":
                os.link(self.outside(more[0]), path)
            case "dir_mode":
                path.mkdir()
                path.chmod(int(more[0], 8))
            case "file":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(more[0] if more else "")
            case "dir":
                path.mkdir(parents=True)
            case _:
                raise AssertionError(f"unknown setup {verb}")

    def tree_hash(self) -> str:
        """Return a hash over everything in OUT: names, kinds, contents."""
        digest = hashlib.sha256()
        for path in sorted(self.out.rglob("*")):
            content = path.read_bytes() if path.is_file() else b""
            digest.update(f"{path.relative_to(self.out)} {path.lstat().st_mode} {len(content)} ".encode() + content)
        return digest.hexdigest()


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def project_of(scene: Scene, way: str) -> Project:
    """Return the scene's project, opened with openat2 or with the walk."""
    opener = OPENERS[way]()
    assert opener is not None, "this kernel has no openat2"
    return Project(scene.project, opener=opener)


def ingest_in_child(scene: Scene, case: dict[str, Any], way: str) -> dict[str, Any]:
    """Ingest a case that changes its whole process (a mount of its own, a limit on descriptors) in another one."""
    job = {"folder": str(scene.project.parent), "case": case, "way": way}
    command = ["unshare", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",))]
    done = subprocess.run(
        [*command, sys.executable, "-m", "tests.ingest.child"],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent.parent,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def broken_invariants(
    scene: Scene, manifest: dict[str, Any], out_before: str, *, is_mounted: bool = False
) -> list[str]:
    """Return which of the corpus's global invariants do not hold."""
    broken = []
    if scene.tree_hash() != out_before:
        broken.append("OUT changed")
    entries = manifest["artifacts"]
    counts = {name: sum(entry["status"] == name for entry in entries) for name in ("written", "skipped", "rejected")}
    if manifest["summary"] != {"total_blocks": len(entries), **counts}:
        broken.append("the summary does not add up")
    if [entry["index"] for entry in entries] != list(range(len(entries))):
        broken.append("indexes are not dense")
    for entry in entries:
        if entry["status"] == "written":
            content = (scene.project / entry["workspace_path"]).read_bytes()
            if (len(content), hashlib.sha256(content).hexdigest()) != (entry["bytes"], entry["sha256"]):
                broken.append(f"block {entry['index']} is not what is on the disk")
            if (scene.project / entry["workspace_path"]).lstat().st_mode & 0o7133:
                broken.append(f"block {entry['index']} is executable, or others may write it")
            if (scene.project / entry["workspace_path"]).lstat().st_nlink != 1:
                broken.append(f"block {entry['index']} has a second name")
    if [path for path in scene.project.parent.rglob("*.tmp") if not is_mounted]:
        broken.append("a temporary file is left")
    for line in (scene.project / ".sapwood" / "events.jsonl").read_bytes().splitlines():
        json.loads(line)
    saved = list((scene.project / ".sapwood" / "ingest").rglob("*.json"))
    if [json.loads(path.read_bytes()) for path in saved] != [manifest]:
        broken.append("the saved manifest is another one")
    return broken
