"""Nodes in git worktrees: only what completed reaches the project, and nothing is left behind."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import sapwood
from sapwood.core.artifacts import AgentResult, EventArtifact
from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.workflow import CommandNode, Workflow
from sapwood.engine.boot import boot
from sapwood.providers.program import run_program
from sapwood.runtime.session import Store
from sapwood.runtime.worktrees import create, discard, worktree_of
from tests.runtime.test_evidence import git, git_project
from tests.runtime.world import Provider, agent, all_of, begin, echo, finish, make_executor, wait_for, workflow


def finish_in(
    project: Path | None, store: Store, folder: Path, run: str, provider: Provider | None = None
) -> str | None:
    return finish(store, folder, run, provider, run_command=run_program, project=project)


def shell(key: str, words: str) -> CommandNode:
    return CommandNode(key=key, run=("sh", "-c", words), worktree=True)


def events(store: Store, run: str, kind: str) -> list[dict[str, Any]]:
    return [one.payload for one in all_of(store, run, EventArtifact) if one.type == kind]


def branches(project: Path) -> list[str]:
    shown = subprocess.run(["git", "branch", "--list", "sapwood/*"], cwd=project, capture_output=True, text=True)
    return shown.stdout.split()


def test_what_parallel_nodes_do_is_all_merged(tmp_path: Path, store: Store) -> None:
    project = git_project(tmp_path)
    run = begin(store, workflow(*(shell(f"n{n}", f"ls > n{n}; sleep 0.2") for n in range(4)), edges=[]))
    assert finish_in(project, store, tmp_path, run) == "completed"
    assert sorted(path.name for path in project.glob("n*")) == ["n0", "n1", "n2", "n3"]
    assert branches(project) == []
    assert list((project / ".sapwood/worktrees").glob("[!.]*")) == []


def test_one_worktree_of_a_repository_at_a_time_is_made_or_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git reads what it keeps of all worktrees whenever it makes or removes one, also of a half made one."""
    project, keys, ran = git_project(tmp_path), sapwood.KeyFactory(), subprocess.run
    (project / "part").mkdir()
    at_work, most = [0], [0]
    lock = threading.Lock()

    def watched(words: list[str], **more: Any) -> Any:
        if "worktree" not in words:
            return ran(words, **more)
        with lock:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
        time.sleep(0.05)
        done = ran(words, **more)
        with lock:
            at_work[0] -= 1
        return done

    def come_and_go(place: Path) -> None:
        tree = worktree_of(place, keys.root())
        create(tree)
        discard(tree)

    monkeypatch.setattr(subprocess, "run", watched)
    places = (project, project, project / "part")
    threads = [threading.Thread(target=come_and_go, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_inside_a_hook_of_another_repository_the_right_one_is_used(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = git_project(tmp_path)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    run = begin(store, workflow(shell("edit", "echo x > new.txt"), edges=[]))
    assert finish_in(project, store, tmp_path, run) == "completed"
    assert (project / "new.txt").exists()


def test_no_hook_of_the_repository_is_run_and_no_commit_is_signed(tmp_path: Path, store: Store) -> None:
    project, mark = git_project(tmp_path), tmp_path / "was-run"
    names = ("pre-commit", "commit-msg", "post-commit", "pre-merge-commit", "post-merge", "post-checkout")
    program = f"#!/bin/sh\ntouch {mark}\n"
    for path in (tmp_path / "signs", *(project / ".git" / "hooks" / name for name in names)):
        path.parent.mkdir(exist_ok=True)
        path.write_text(program)
        path.chmod(0o755)
    git(project, "config", "commit.gpgsign", "true")
    git(project, "config", "gpg.program", str(tmp_path / "signs"))
    run = begin(store, workflow(shell("edit", "echo x > new.txt"), edges=[]))
    assert finish_in(project, store, tmp_path, run) == "completed"
    assert (project / "new.txt").exists()
    assert not mark.exists()


def test_a_node_that_changes_nothing_merges_nothing(tmp_path: Path, store: Store) -> None:
    project = git_project(tmp_path)
    run = begin(store, workflow(shell("quiet", "true"), edges=[]))
    assert finish_in(project, store, tmp_path, run) == "completed"
    assert [one["merge_commit_hash"] for one in events(store, run, "WorktreeMergedEvent")] == [None]


def test_work_that_conflicts_fails_its_node_and_stays_on_its_branch(tmp_path: Path, store: Store) -> None:
    project = git_project(tmp_path)
    here = f"cd {project} && git -c user.name=t -c user.email=t@t -c commit.gpgsign=false"
    words = f"echo mine > a.txt; {here} commit -qam theirs --allow-empty"
    run = begin(store, workflow(shell("edit", f"echo theirs > {project}/a.txt; {words}"), edges=[]))
    assert finish_in(project, store, tmp_path, run) == "failed"
    (merged,) = events(store, run, "WorktreeMergedEvent")
    assert merged["conflict_detected"] is True
    assert merged["conflict_files"] == ["a.txt"]
    (branch,) = branches(project)
    assert branch in all_of(store, run, AgentResult)[0].error
    assert (project / "a.txt").read_text() == "theirs\n"
    status = subprocess.run(["git", "status", "--porcelain"], cwd=project, capture_output=True, text=True).stdout
    assert "a.txt" not in status


@pytest.mark.parametrize("has_repository", [True, False], ids=["no commit", "no repository"])
def test_without_a_commit_to_start_from_the_node_fails(tmp_path: Path, store: Store, has_repository: bool) -> None:
    project = tmp_path / "empty"
    project.mkdir()
    if has_repository:
        git(project, "init", "-q")
    run = begin(store, workflow(shell("edit", "true"), edges=[]))
    assert finish_in(project, store, tmp_path, run) == "failed"
    assert "needs a git repository with a commit" in all_of(store, run, AgentResult)[0].error


def test_an_agent_works_in_the_worktree_and_what_a_dead_process_left_is_cleared(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = git_project(tmp_path)
    run = begin(store, one_agent())

    class Writing(Provider):
        async def run(self, prompt: str, options: ProviderRunOptions) -> Any:
            (Path(options.folder) / f"{self._seconds:g}.txt").write_text("x")
            async for item in super().run(prompt, options):
                yield item

    with monkeypatch.context() as patch:  # a killed process clears nothing away
        patch.setattr("sapwood.runtime.in_worktree.discard", lambda *_args, **_more: False)
        steps = make_executor(store, Writing(echo, seconds=30), project=project)
        with boot(tmp_path / "engine.db", steps) as engine:
            engine.submit(run)
            wait_for(lambda: list((project / ".sapwood/worktrees").glob("*/30.txt")))
    assert len(branches(project)) == 1 + 1  # git marks a branch that is checked out in a worktree with a plus sign
    assert finish_in(project, store, tmp_path, run, Writing(echo, seconds=0)) == "completed"
    assert (project / "0.txt").exists()
    assert not (project / "30.txt").exists()
    assert branches(project) == []
    assert any("its process ended" in one["reason"] for one in events(store, run, "WorktreeDiscardedEvent"))


def one_agent() -> Workflow:
    return workflow(agent("a", worktree=True), edges=[])
