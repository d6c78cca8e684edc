"""`sapwood check` and `sapwood graph`."""

from __future__ import annotations

import json
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
        f"{project / 'flow.yaml'}: fine, 2 nodes, 1 edges",
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


def test_mistakes_as_json(tmp_path: Path) -> None:
    project = make_project(tmp_path, FLOW.replace("kind: gate", "kind: gat"))
    result = CliRunner().invoke(cli, ["check", str(project / "flow.yaml"), "--project", str(project), "--json"])
    told = json.loads(result.output)
    assert not told["ok"]
    assert told["mistakes"][0]["line"] == 4
    assert result.exit_code == 1


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
