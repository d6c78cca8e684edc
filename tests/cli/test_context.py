"""`sapwood context` and `sapwood budget stats`, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import sapwood
from sapwood.cli.main import cli
from sapwood.cli.untrusted import visible
from sapwood.core.workflow import ContextOptions
from sapwood.storage.sqlite import SqliteStore
from tests.app.project import make_project
from tests.runtime.context_run import ContextRun

HOSTILE = "\x1b]8;;http://evil\x07click\x1b[2J[red]x[/red]\u202e"


@pytest.fixture
def run(tmp_path: Path) -> ContextRun:
    store = SqliteStore(tmp_path / "s.db")
    run = ContextRun(store)
    for place in range(4):
        run.perform(f"n{place}", f"<{place}>" + "x" * 12_000, to=("join",))
    run.perform("n4", HOSTILE, to=("late",))
    run.phase(run.visit("plan", ("report", "planned")), 1, goal="GOAL", decisions_made=("word " * 9_000,))
    run.perform("join", "joined", manifest=sapwood.resolve_manifest(2))
    run.perform("late", "broke", kind="log")
    store.close()
    return run


def ask(run: ContextRun, tmp_path: Path, *words: str) -> Result:
    result = CliRunner(env={"COLUMNS": "160"}).invoke(
        cli, [*words, "--store", str(tmp_path / "s.db")], catch_exceptions=True
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit | sapwood.SapwoodError):
        raise result.exception
    return result


def as_json(run: ContextRun, tmp_path: Path, *words: str) -> Any:
    return json.loads(ask(run, tmp_path, *words, "--json").output)


def test_it_shows_entry_by_entry_what_was_cut_or_dropped_and_by_which_rule(run: ContextRun, tmp_path: Path) -> None:
    shown = ask(run, tmp_path, "context", run.root.text, "join").output
    assert "join, attempt 1, saw 3 entries, 1 dropped" in shown
    assert "max_chars_per_artifact 12000" in shown
    assert "max_context_chars_total 32000" in shown
    assert "min_remaining_chars 1000" in shown
    assert "[" + "#" * 32 + "] 32,000 of 32,000" in shown
    assert "of 2,500, phase 2" in shown


def test_the_json_says_the_same(run: ContextRun, tmp_path: Path) -> None:
    data = as_json(run, tmp_path, "context", run.root.text, "join")
    assert [(one["source"], one["included_chars"]) for one in data["entries"]] == [
        ("n0", 12_000),
        ("n1", 12_000),
        ("n2", 8_000),
    ]
    assert [(one["source"], one["chars"]) for one in data["dropped"]] == [("n3", 12_003)]
    assert data["manifest"]["included_count"] == 3
    assert data["recorded_in"] == "Report"
    assert data["budgets"][0]["was_truncated"] is True
    assert data["policy"]["max_context_chars_total"] == 32_000


def test_entry_n_prints_the_exact_bytes(run: ContextRun, tmp_path: Path) -> None:
    result = ask(run, tmp_path, "context", run.root.text, "late", "--entry", "1")
    assert sapwood.parse_envelope(result.stdout_bytes.decode()).content == HOSTILE
    assert ask(run, tmp_path, "context", run.root.text, "late", "--entry", "2").exception is not None


def test_the_text_of_earlier_phases_is_printed_exactly(run: ContextRun, tmp_path: Path) -> None:
    text = as_json(run, tmp_path, "context", run.root.text, "join")["phase_text"]
    assert ask(run, tmp_path, "context", run.root.text, "join", "--phase").stdout_bytes.decode() == text
    assert f"earlier phases: {len(text):,} characters" in ask(run, tmp_path, "context", run.root.text, "join").output
    assert isinstance(ask(run, tmp_path, "context", run.root.text, "late", "--phase").exception, sapwood.NotFound)


def test_diff_shows_what_was_cut_out(run: ContextRun, tmp_path: Path) -> None:
    shown = ask(run, tmp_path, "context", run.root.text, "join", "--diff").output
    assert "entry 1, n0: cut chars 6,000 to 6,003" in shown
    assert "\n- xxx\n" in shown
    assert "entry 3, n2: cut chars 4,000 to 8,003" in shown


def test_another_policy_answers_what_would_it_get(run: ContextRun, tmp_path: Path) -> None:
    words = ("context", run.root.text, "join", "--policy", "max_context_chars_total=50000")
    assert "would see 4 entries" in ask(run, tmp_path, *words).output
    data = as_json(run, tmp_path, *words, "--policy", "max_chars_per_artifact=10")
    assert [one["included_chars"] for one in data["entries"]] == [10] * 4
    same = as_json(run, tmp_path, "context", run.root.text, "join", "--policy", "max_upstream_artifacts=4")
    assert same == as_json(run, tmp_path, "context", run.root.text, "join")


@pytest.mark.parametrize("change", ["max_everything=1", "max_distance", "max_distance=-1", "max_distance=x"])
def test_a_bound_that_does_not_exist_is_refused(run: ContextRun, tmp_path: Path, change: str) -> None:
    result = ask(run, tmp_path, "context", run.root.text, "join", "--policy", change)
    assert isinstance(result.exception, sapwood.InvalidHandoff)


def test_nothing_of_an_agents_text_reaches_the_terminal_alive(run: ContextRun, tmp_path: Path) -> None:
    shown = ask(run, tmp_path, "context", run.root.text, "late", "--diff").output
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert "invisible characters stand in the text of artifact 5" in shown
    assert visible("a\x1b[2J\u202eb\n") == "a\\u{1b}[2J\\u{202e}b\n"


def test_what_is_not_there_is_not_found(run: ContextRun, tmp_path: Path) -> None:
    for words in ((run.root.text, "nobody"), (run.root.text, "join", "--attempt", "7")):
        assert isinstance(ask(run, tmp_path, "context", *words).exception, sapwood.NotFound)
    result = ask(run, tmp_path, "context", run.root.text, "join", "--attempt", "7")
    assert str(result.exception).endswith("attempt 7 of node join in run " + f"{run.root.text} not found; there are 1")
    other = sapwood.KeyFactory().root().text
    assert isinstance(ask(run, tmp_path, "budget", "stats", other).exception, sapwood.NotFound)
    assert isinstance(ask(run, tmp_path, "context", other, "join").exception, sapwood.NotFound)


def test_the_recorded_context_of_an_extension_is_shown_too(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    run = ContextRun(store)
    run.visit("a", ("log", "boom"), status="failed")
    run.perform("a", "done", options=ContextOptions(retry=True))
    store.close()
    (entry,) = as_json(run, tmp_path, "context", run.root.text, "a")["entries"]
    assert (entry["kind"], entry["source"], entry["included_chars"]) == ("retry_context_v1", "a", 4)


@pytest.mark.parametrize(
    "change", [{}, {"entries": [{}]}, {"included_count": "3"}, {"included_artifact_ids": [1, 2]}, {"extensions": None}]
)
def test_a_manifest_that_somebody_else_wrote_is_a_typed_error_and_no_traceback(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    whole = sapwood.assemble_handoff(
        (), workflow_run_id=1, target_node_key="a", assembled_at="2026-01-01T00:00:00Z"
    ).manifest
    with sapwood.open(tmp_path / "s.db") as store, store.record() as run, run.agent("a") as agent:
        agent.report("x", context_manifest={**whole, **change} if change else {"included_count": 1})
    result = CliRunner().invoke(cli, ["context", run.key.text, "a", "--store", str(tmp_path / "s.db")])
    assert isinstance(result.exception, sapwood.InvalidArtifact)
    assert "no context manifest" in str(result.exception)


def test_budget_stats_says_which_budget_is_too_tight(run: ContextRun, tmp_path: Path) -> None:
    (row,) = as_json(run, tmp_path, "budget", "stats")
    assert (row["phase"], row["node"], row["applied"], row["truncated"]) == (2, "join", 1, 1)
    assert (row["verdict"], row["estimator"]) == ("too tight", "chars/4")
    assert row["dropped_tokens"] > 8_000
    assert "too tight" in ask(run, tmp_path, "budget", "stats", run.root.text).output


FLOW = """
name: feature
phases: {2: {max_tokens: 40}}
nodes:
  plan: {kind: agent, template: tpl.agent.x.prompt, phase: 1, select: all}
  left: {kind: agent, template: tpl.agent.x.prompt}
  right: {kind: agent, template: tpl.agent.x.prompt}
  build: {kind: agent, template: tpl.agent.x.prompt, phase: 2, context: {retry: true, failure_route: true,
    policy: {max_context_chars_total: 20000}}}
  test: {kind: command, run: [echo, fine]}
edges:
  - {from: plan, to: right}
  - {from: plan, to: left}
  - {from: right, to: build, on: terminal}
  - {from: left, to: build, when: "decision == 'approved'"}
  - {from: build, to: test}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project", FLOW)


def preview(project: Path, node: str, *words: str, columns: int = 160) -> Result:
    command = ["context", str(project / "flow.yaml"), node, "--preview", "--project", str(project), *words]
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, command)


def test_a_preview_says_what_a_node_would_get_at_most_and_records_nothing(project: Path) -> None:
    data = json.loads(preview(project, "build", "--json").output)
    assert [(one["node"], one["when"], one["most_chars"]) for one in data["sources"]] == [
        ("left", "when decision == 'approved'", 8_000),
        ("right", "on terminal", 0),
    ]
    assert [(one["name"], one["when"], one["most_chars"]) for one in data["extensions"]] == [
        ("retry_context_v1", "from attempt 2, after one that failed", 4_000),
        ("failure_route_context_v1", "right failed", 8_000),
    ]
    assert (data["most_chars"], data["policy"]["max_context_chars_total"]) == (20_000, 20_000)
    assert (data["manifest"]["max_tokens"], data["manifest"]["narrative_cap"]) == (40, 500)
    assert data["earlier_phases"] == [[1, "plan"]]
    assert not (project / ".sapwood").exists()


@pytest.mark.parametrize("columns", [40, 160])
def test_a_preview_shortens_nothing_in_whatever_terminal(project: Path, columns: int) -> None:
    shown = " ".join(preview(project, "build", columns=columns).output.split())
    for words in (
        "when decision == 'approved'",
        "failure_route_context_v1",
        "max_failure_route_chars 8000",
        "plan (1)",
    ):
        assert words in shown


def test_a_preview_with_another_policy(project: Path) -> None:
    data = json.loads(preview(project, "build", "--json", "--policy", "max_context_chars_total=50000").output)
    assert [one["most_chars"] for one in data["sources"]] == [12_000, 12_000]


def test_a_preview_of_what_is_not_there_or_gets_no_context(project: Path) -> None:
    missing = preview(project, "bild")
    assert isinstance(missing.exception, sapwood.NotFound)
    assert "did you mean 'build'" in str(missing.exception)
    assert "no context is made for it" in preview(project, "test").output
    assert preview(project, "build", "--entry", "1").exit_code == 2


def test_a_node_s_own_policy_is_the_one_that_is_shown(project: Path) -> None:
    run = sapwood.run_workflow(project / "flow.yaml", project=project)
    result = CliRunner().invoke(cli, ["context", run.text, "build", "--project", str(project), "--json"])
    assert json.loads(result.output)["policy"]["max_context_chars_total"] == 20_000


NESTED = """
name: outer
nodes:
  plan: {kind: agent, template: tpl.agent.x.prompt, select: all}
  sub: {kind: workflow, workflow: flow.yaml, inputs: {}}
  other: {kind: agent, template: tpl.agent.x.prompt}
  both: {kind: join}
edges:
  - {from: plan, to: sub}
  - {from: plan, to: other}
  - {from: sub, to: both}
  - {from: other, to: both}
"""


def test_nodes_inside_nodes_and_joins_are_shown_by_their_names(project: Path) -> None:
    (project / "outer.yaml").write_text(NESTED)
    command = ["context", str(project / "outer.yaml"), "sub.build", "--preview", "--project", str(project), "--json"]
    data = json.loads(CliRunner().invoke(cli, command).output)
    assert (data["node"], [one["node"] for one in data["sources"]]) == ("sub.build", ["sub.left", "sub.right"])
    run = sapwood.run_workflow(project / "outer.yaml", project=project)

    def shown(node: str, *words: str) -> Result:
        return CliRunner().invoke(cli, ["context", run.text, node, "--project", str(project), *words])

    assert [one["source"] for one in json.loads(shown("sub.build", "--json").output)["entries"]] == ["sub.right"]
    assert [one["source"] for one in json.loads(shown("both", "--json").output)["entries"]] == ["sub", "other"]
    assert "both, attempt 1, saw 2 entries" in shown("both").output
    assert isinstance(shown("both", "--entry", "1").exception, sapwood.NotFound)
