"""`runs`, `show`, `verify` and `reconstruct`, as a user calls them."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import sapwood
from sapwood.cli.main import cli
from sapwood.core.artifacts import Note, PromptArgs, PromptTemplate, RenderedPrompt
from sapwood.core.record import Record
from sapwood.runtime.run import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    with sapwood.open(tmp_path / "s.db") as store:
        store.templates.register("tpl.x.y", "Hi {{ a }}", variables=["a"])
        with store.record() as run, run.agent("pick") as agent:
            agent.prompt("tpl.x.y", args={"a": "\x1b[31mred"})
            agent.tool_call("grep", input=1, output=2)
            agent.report("done")
    return run


def call(tmp_path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [arguments[0], "--store", str(tmp_path / "s.db"), *arguments[1:]])


def test_runs_lists_the_run(run: Run, tmp_path: Path) -> None:
    assert "completed" in call(tmp_path, "runs").output
    assert json.loads(call(tmp_path, "runs", "--json").output)["key"] == run.key.text


def test_show_prints_the_tree_with_nothing_that_a_terminal_obeys_and_raw_the_exact_bytes(
    run: Run, tmp_path: Path
) -> None:
    shown = call(tmp_path, "show", run.key.text)
    assert "RenderedPrompt" in shown.output
    assert "\x1b" not in shown.output
    prompt = next(record for record in _records(tmp_path, run) if record.kind == "RenderedPrompt")
    assert call(tmp_path, "show", prompt.key.text, "--raw").stdout_bytes == b"Hi \x1b[31mred"
    assert call(tmp_path, "show", run.key.text, "--depth", "0").output.count("\n") == 1
    assert "--after" in call(tmp_path, "show", run.key.text, "--limit", "2").output


def test_on_a_terminal_the_exact_bytes_have_nothing_that_it_obeys(run: Run, tmp_path: Path) -> None:
    prompt = next(record for record in _records(tmp_path, run) if record.kind == "RenderedPrompt")
    ours, theirs = pty.openpty()
    words = ["show", prompt.key.text, "--raw", "--store", str(tmp_path / "s.db")]
    with subprocess.Popen([sys.executable, "-m", "sapwood", *words], stdout=theirs, stderr=theirs) as process:
        assert process.wait(20) == 0
    assert os.read(ours, 10_000) == b"Hi \\u{1b}[31mred\r\n"
    os.close(ours)
    os.close(theirs)


def test_exact_bytes_are_not_promised_as_json(run: Run, tmp_path: Path) -> None:
    for words in (["show", "--raw"], ["context", "pick", "--entry", "1"], ["context", "pick", "--phase"]):
        refused = call(tmp_path, words[0], run.key.text, *words[1:], "--json")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "leave --json out" in refused.stderr


def test_show_pages_a_tree_without_gap_or_repetition_at_any_depth(run: Run, tmp_path: Path) -> None:
    for depth in (0, 1, 2, 9):
        whole = call(tmp_path, "show", run.key.text, "--depth", str(depth), "--json").output.splitlines()
        found: list[str] = []
        after: tuple[str, ...] = ()
        while True:
            page = call(tmp_path, "show", run.key.text, "--depth", str(depth), "--limit", "3", "--json", *after)
            if page.exit_code:
                assert isinstance(page.exception, sapwood.NotFound)
                break
            found += page.stdout.splitlines()
            after = ("--after", json.loads(found[-1])["key"])
        assert found == whole
    assert {json.loads(line)["kind"] for line in whole} >= {"Execution", "RenderedPrompt", "Report", "Seal"}


@pytest.mark.parametrize("width", ["60", "140"])
def test_show_fits_the_terminal_and_any_key_can_be_shown(
    run: Run, tmp_path: Path, width: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    lines = call(tmp_path, "show", run.key.text).output.splitlines()
    assert max(map(len, lines)) <= int(width)
    for record in _records(tmp_path, run):
        below = call(tmp_path, "show", record.key.text, "--keys").output
        assert record.kind in below.splitlines()[0]
        assert record.key.text in below


def test_show_timeline_is_in_the_order_of_making(run: Run, tmp_path: Path) -> None:
    lines = call(tmp_path, "show", run.key.text, "--timeline", "--json").output.splitlines()
    keys = [sapwood.ArtifactKey(json.loads(line)["key"]) for line in lines]
    assert keys == sorted(keys, key=lambda key: (key.last_segment, key))
    assert len(keys) == len(_records(tmp_path, run))
    assert isinstance(
        call(tmp_path, "show", run.key.text, "--timeline", "--depth", "1").exception, sapwood.InvalidInput
    )


def test_show_marks_an_empty_a_cut_and_a_dropped_context_orphans_and_repetitions(tmp_path: Path) -> None:
    manifests = {
        "empty": {"included_count": 0, "entries": [], "dropped_artifact_ids": []},
        "cut": {"included_count": 1, "entries": [{"dropped_chars": 5}], "dropped_artifact_ids": []},
        "dropped": {"included_count": 1, "entries": [{"dropped_chars": 0}], "dropped_artifact_ids": [7, 8]},
        "whole": {"included_count": 1, "entries": [{"dropped_chars": 0}], "dropped_artifact_ids": []},
    }
    with sapwood.open(tmp_path / "s.db") as store, store.record() as run:
        for name, manifest in manifests.items():
            with run.agent(name) as agent:
                agent.report(name, context_manifest=manifest)
        with run.agent("odd") as agent:
            agent.tool_call("x", input=1)
            agent.tool_call("x", input=1)
            lost = agent.child_key()
            store.publish(Note(store.keys.child(lost), text="lost", content_type="text"))
    shown = call(tmp_path, "show", run.key.text).output.splitlines()
    marks = {line.split()[-1]: line for line in shown if line.strip().startswith(("Report", "Note"))}
    assert "[context empty]" in marks["empty"]
    assert "[context cut: 1 of 1]" in marks["cut"]
    assert "[context dropped: 2]" in marks["dropped"]
    assert "[" not in marks["whole"]
    assert "[parent missing]" in marks["lost"]
    assert sum("[same as " in line for line in shown) == 1


def test_show_and_reconstruct_take_whatever_could_be_recorded(tmp_path: Path) -> None:
    number = 10**5000  # more digits than the interpreter likes to print
    manifests = [{"entries": 5}, {"dropped_artifact_ids": 5}, {"entries": [7]}, {"included_count": "x"}]
    with sapwood.open(tmp_path / "s.db", clock=lambda: 2**48 - 1) as store, store.record() as run:  # in the year 10889
        for place, manifest in enumerate(manifests):
            with run.agent(f"a{place}") as agent:
                agent.tool_call("count", input=number)
                agent.report("r", context_manifest=manifest)
    for words in (["show"], ["show", "--json"], ["show", "--timeline"], ["reconstruct"], ["reconstruct", "--json"]):
        result = call(tmp_path, words[0], run.key.text, *words[1:])
        assert result.exit_code == 0, words
        assert (f"1{'0' * 5000}" in result.output) == ("--json" in words)
    assert "+010889-08-02 05:31:50" in call(tmp_path, "runs").output


def test_runs_are_paged_newest_first(tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db") as store:
        keys = [store.record().key.text for _ in range(5)]
    first = call(tmp_path, "runs", "--limit", "2").output
    assert keys[4] in first
    hint = first.splitlines()[-1].split("sapwood runs ")[1].split()
    assert [json.loads(line)["key"] for line in call(tmp_path, "runs", *hint, "--json").output.splitlines()] == keys[
        2::-1
    ]
    assert "…" not in call(tmp_path, "runs", "--limit", "5").output


@pytest.mark.parametrize("words", [["show"], ["show", "--timeline"], ["runs"]])
def test_a_page_of_json_that_is_not_all_says_so_beside_it(run: Run, tmp_path: Path, words: list[str]) -> None:
    with sapwood.open(tmp_path / "s.db") as store:
        store.record()
    key = [run.key.text] if words[0] == "show" else []
    page = call(tmp_path, *words, *key, "--limit", "1", "--json")
    assert len([json.loads(line) for line in page.stdout.splitlines()]) == 1
    proposed = shlex.split(page.stderr.strip().removeprefix("… sapwood "))
    following = CliRunner().invoke(cli, proposed)
    assert (following.exit_code, json.loads(following.stdout.splitlines()[0])["key"] in page.stdout) == (0, False)
    assert call(tmp_path, *words, *key, "--json").stderr == ""


def test_a_proposed_command_can_be_given_as_it_stands(run: Run, tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db") as store:
        store.record()
    for words in (["show", run.key.text, "--limit", "2", "--keys"], ["runs", "--limit", "1"]):
        proposed = shlex.split(call(tmp_path, *words).output.splitlines()[-1].removeprefix("… sapwood "))
        result = CliRunner().invoke(cli, proposed)
        assert (result.exit_code, proposed[-2:]) == (0, ["--store", str(tmp_path / "s.db")])
    assert "--keys" in call(tmp_path, "show", run.key.text, "--limit", "2", "--keys").output.splitlines()[-1]


def test_verify_says_yes_with_0_and_no_with_1(run: Run, tmp_path: Path) -> None:
    found = json.loads(call(tmp_path, "verify", run.key.text, "--json").output)
    assert found["ok"] is True
    assert call(tmp_path, "verify").exit_code == 0
    assert call(tmp_path, "verify", run.key.text, "--head", found["head"]).exit_code == 0
    assert call(tmp_path, "verify", run.key.text, "--head", found["head"].upper()).exit_code == 0
    assert call(tmp_path, "verify", run.key.text, "--head", "00" * 32).exit_code == 1


def test_verify_says_no_about_a_file_that_cannot_be_read_to_its_end(run: Run, tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db"):
        pass  # so that all of it is in the file
    with (tmp_path / "s.db").open("r+b") as file:
        for page in range(1, (tmp_path / "s.db").stat().st_size // 8192):
            file.seek(page * 8192)
            if file.read(1) == b"\x0d":  # a leaf of a table
                file.seek(page * 8192)
                file.write(b"\x55" * 512)
    for key in ([], [run.key.text]):
        said = call(tmp_path, "verify", *key, "--json")
        (finding,) = json.loads(said.output)["findings"]
        assert (said.exit_code, finding["code"]) == (1, "damaged")
        assert "malformed" in finding["message"]


def test_half_a_head_is_a_mistake_of_the_caller_and_no_finding(run: Run, tmp_path: Path) -> None:
    head = json.loads(call(tmp_path, "verify", run.key.text, "--json").output)["head"]
    for wrong in (head[:40], head + "0", "", "g" * 64):
        refused = call(tmp_path, "verify", run.key.text, "--head", wrong)
        assert isinstance(refused.exception, sapwood.InvalidInput)
        assert refused.output == ""


def test_verify_takes_a_subtree_and_a_head_only_with_a_whole_run(run: Run, tmp_path: Path) -> None:
    below = next(record for record in _records(tmp_path, run) if record.kind == "AgentRequest").key.text
    found = json.loads(call(tmp_path, "verify", below, "--json").output)
    assert found["ok"] is True
    assert 0 < found["artifacts"] < json.loads(call(tmp_path, "verify", "--json").output)["artifacts"]
    for arguments in ([], [below]):
        assert isinstance(call(tmp_path, "verify", *arguments, "--head", "00" * 32).exception, sapwood.InvalidInput)


def test_reconstruct_rebuilds_the_prompt(run: Run, tmp_path: Path) -> None:
    told = json.loads(call(tmp_path, "reconstruct", run.key.text, "--json").output)
    assert told["prompts"][0]["is_rebuilt"] is True
    assert told["tools"][0]["tool"] == "grep"


def test_json_has_recorded_integers_of_any_size(tmp_path: Path) -> None:
    with sapwood.open(tmp_path / "s.db") as store, store.record() as run, run.agent("a") as agent:
        agent.tool_call("count", input=10**5_000, output=None)
    for command in ("show", "reconstruct"):
        assert f"1{'0' * 5_000}" in call(tmp_path, command, run.key.text, "--json").output


def test_a_part_of_a_run_is_reconstructed_without_asking_for_what_stands_above(run: Run, tmp_path: Path) -> None:
    below = next(record for record in _records(tmp_path, run) if record.kind == "AgentRequest").key.text
    told = json.loads(call(tmp_path, "reconstruct", below, "--json").output)
    assert (told["ok"], told["findings"], len(told["prompts"])) == (True, [], 1)


def test_what_is_not_stored_is_said_with_where_to_look(run: Run, tmp_path: Path) -> None:
    for words in (["show"], ["show", "--raw"], ["verify"], ["reconstruct"]):
        missing = call(tmp_path, words[0], sapwood.KeyFactory().root().text, *words[1:]).exception
        assert isinstance(missing, sapwood.NotFound)
        assert "sapwood runs" in str(missing)


def test_no_name_that_an_agent_gave_begins_a_line_or_reaches_a_terminal_alive(tmp_path: Path) -> None:
    evil = "x\nthe store  ok\x1b[2J\u202e\u2028"
    with sapwood.open(tmp_path / "s.db") as store:
        store.templates.register("tpl.x.y", f"Hi {evil}")
        with store.record() as run, run.agent("pick") as agent:
            agent.prompt("tpl.x.y")
            agent.tool_call(evil, input=1, output=2)
            prompt = RenderedPrompt(agent.child_key(), text="Hi", renderer="r", renderer_version="1")
            agent.add(prompt)
            about: dict[str, Any] = {"template_id": evil, "variables": (), "last_updated_ms": 1}
            agent.add(PromptTemplate(store.keys.child(prompt.key), text="Hi", **about))
            agent.add(PromptArgs(store.keys.child(prompt.key), args={}))
            run.outcome(evil, passed=True)
    words = (["reconstruct", run.key.text], ["templates", "outcomes", "tpl.x.y"])
    printed = [CliRunner().invoke(cli, [*some, "--store", str(tmp_path / "s.db")]).output for some in words]
    printed.append(CliRunner().invoke(cli, [*words[1], "--json", "--store", str(tmp_path / "s.db")]).output)
    shown = ["templates", "show", "tpl.x.y", "--json", "--store", str(tmp_path / "s.db")]
    printed.append(CliRunner().invoke(cli, shown).output)
    for text in printed:
        assert not {"\x1b", "\u202e", "\u2028"} & set(text)
        assert not any(line.startswith("the store") for line in text.splitlines())


def _records(tmp_path: Path, run: Run) -> list[Record]:
    with sapwood.open(tmp_path / "s.db") as store:
        return list(store.load(run.key).walk())
