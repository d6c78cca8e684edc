"""`sapwood check` and `sapwood graph`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from sapwood.cli.main import cli
from tests.app.project import make_project

FLOW = """\
name: feature
nodes:
  draft: {kind: agent, template: tpl.agent.x.prompt}
  ship: {kind: gate, ask: "Ship it?"}
edges:
  - {from: draft, to: ship}
"""


def test_a_good_file_is_fine_and_nothing_is_written(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW)
    before = sorted(tmp_path.rglob("*"))
    result = CliRunner().invoke(cli, ["check", str(project / "flow.yaml"), "team", "--project", str(project)])
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"{project / 'flow.yaml'}: fine, 2 nodes, 1 edge",
        "team: fine, 7 nodes, 7 edges",
    ]
    assert sorted(tmp_path.rglob("*")) == before


def test_each_mistake_has_its_place_a_reason_and_what_was_meant(tmp_path: Path) -> None:
    project = make_project(
        tmp_path, FLOW.replace("tpl.agent.x.prompt", "tpl.agent.x.promt").replace("to: ship", "to: shp")
    )
    result = CliRunner().invoke(cli, ["check", str(project / "flow.yaml"), "--project", str(project)])
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0].startswith(f"{project / 'flow.yaml'}:3:34: unknown template 'tpl.agent.x.promt'; did you mean")
    assert lines[1].endswith("draft: {kind: agent, template: tpl.agent.x.promt}")
    assert lines[2].index("^") == lines[1].index("tpl.agent")
    assert lines[3].startswith(f"{project / 'flow.yaml'}:6:23: unknown node 'shp'; did you mean 'ship'")


OPTIONS = """\
name: feature
inputs: {words: {type: string, default: x}}
defaults: {options: {timeout: 3}}
nodes:
  fine:   {kind: agent, template: tpl.agent.x.prompt, provider: scripted}
  typo:   {kind: agent, template: tpl.agent.x.prompt, provider: scripted, options: {scrpt: answers.yaml}}
  shell:  {kind: agent, template: tpl.agent.x.prompt, provider: command, options: {command: ls -l}}
  unsaid: {kind: agent, template: tpl.agent.x.prompt, provider: command}
  given:  {kind: agent, template: tpl.agent.x.prompt, provider: command, options: {command: "${inputs.words}"}}
edges: [{from: fine, to: typo}, {from: typo, to: shell}, {from: shell, to: unsaid}, {from: unsaid, to: given}]
"""


def test_options_that_their_provider_cannot_use_are_mistakes_where_they_are_written(tmp_path: Path) -> None:
    project = make_project(tmp_path, OPTIONS)
    flow = str(project / "flow.yaml")
    result = CliRunner().invoke(cli, ["check", flow, "--project", str(project)])
    found = [line.removeprefix(f"{flow}:") for line in result.output.splitlines() if line.startswith(flow)]
    assert [line.partition(" allowed:")[0] for line in found] == [
        "3:22: provider command: unknown option 'timeout'; did you mean 'timeout_s'?",
        "6:85: provider scripted: unknown option 'scrpt'; did you mean 'script'?",
        "7:93: provider command: option command: expected a list of words, the program first",
        "8:3: provider command: option command: expected a list of words, the program first",
    ]


def test_what_the_settings_tell_their_provider_is_checked_with_the_nodes_that_get_it(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW)
    (project / "sapwood.toml").write_text('provider = "command"\nprovider_options = {comand = ["my-agent"]}\n')
    result = CliRunner().invoke(cli, ["check", str(project / "flow.yaml"), "--project", str(project)])
    assert result.exit_code == 1
    assert "flow.yaml:3:3: provider command: unknown option 'comand'; did you mean 'command'?" in result.output
    (project / "sapwood.toml").write_text('provider = "command"\nprovider_options = {command = ["my-agent"]}\n')
    result = CliRunner().invoke(cli, ["check", str(project / "flow.yaml"), "--project", str(project)])
    assert result.exit_code == 0, result.output


def test_a_long_line_is_cut_around_its_mistake_with_a_mark_where_it_was_cut(tmp_path: Path) -> None:
    gate = f"ship: {{kind: gate, ask: '{'木' * 30}{'x' * 300}', colour: red, description: '{'y' * 300}'}}"
    project = make_project(tmp_path, FLOW.replace('ship: {kind: gate, ask: "Ship it?"}', gate))
    result = CliRunner().invoke(cli, ["check", str(project / "flow.yaml"), "--project", str(project)])
    _, line, mark = result.output.splitlines()
    assert line.startswith("    4 | …x")
    assert line.endswith("y…")
    assert len(line) == 200
    assert line[mark.index("^") :].startswith("colour: red")


def test_a_mark_stands_below_its_place_also_after_wide_characters(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW.replace('ask: "Ship it?"}', 'ask: "木木木", colour: red}'))
    result = CliRunner().invoke(cli, ["check", str(project / "flow.yaml"), "--project", str(project)])
    _, line, mark = result.output.splitlines()
    assert mark.index("^") == line.index("colour") + 3


def test_mistakes_as_json(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW.replace("kind: gate", "kind: gat"))
    result = CliRunner().invoke(cli, ["check", str(project / "flow.yaml"), "--project", str(project), "--json"])
    told = json.loads(result.output)
    assert not told["ok"]
    assert told["mistakes"][0]["line"] == 4
    assert result.exit_code == 1


def test_a_file_that_is_not_there_hides_no_mistake_of_another(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW.replace("kind: gate", "kind: gat"))
    words = ["check", str(project / "flow.yaml"), "none.yaml", str(project / "templates"), "--project", str(project)]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 3
    assert "unknown kind of node 'gat'" in result.stdout
    assert result.stderr.splitlines() == [
        "sapwood: workflow none.yaml not found; no such file, and no built-in workflow; allowed: "
        "phased, self_critique, single, team",
        f"sapwood: workflow {project / 'templates'} not found; there is a folder of that name; a file is expected",
    ]
    told = json.loads(CliRunner().invoke(cli, ["check", "none.yaml", "team", "--json"]).stdout)
    assert told == {"ok": False, "mistakes": []}


def test_a_mistake_of_a_file_without_end_is_shown_without_reading_it_again(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sapwood", "check", "/dev/zero", "--project", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (1, "/dev/zero:1:1: the file is larger than 524288 bytes\n")


def test_the_graph_is_drawn_for_a_terminal_and_as_mermaid(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW)
    words = ["graph", str(project / "flow.yaml"), "--project", str(project)]
    assert CliRunner().invoke(cli, words).output == "●  draft (agent scripted)\n●  ship (gate)\n"
    assert CliRunner().invoke(cli, [*words, "--mermaid"]).output.splitlines() == [
        "flowchart TD",
        '  n0["draft (agent scripted)"]',
        '  n1{{"ship (gate)"}}',
        "  n0 --> n1",
    ]
    assert json.loads(CliRunner().invoke(cli, [*words, "--json"]).output)["name"] == "feature"
