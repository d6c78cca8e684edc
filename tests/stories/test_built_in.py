"""The built-in workflows, by name: each runs to its end and leaves exactly the documents it promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import sapwood
from sapwood.core.artifacts import PhaseHandoff
from sapwood.core.codec import from_record
from sapwood.core.plans import DiscoveryReport, PlanningTicket
from sapwood.runtime.session import Store


def documents(project: Path) -> set[str]:
    """Return every file of the project but the store's and the test's own."""
    files = (path for path in project.rglob("*") if path.is_file() and ".sapwood" not in path.parts)
    return {str(path.relative_to(project)) for path in files} - {"sapwood.toml", "answers.yaml"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with sapwood.open(tmp_path / "store.db") as store:
        yield store


def run(
    name: str, project: Path, store: Store, answers: dict[str, list[dict[str, Any]]] | None = None
) -> sapwood.ArtifactKey:
    """Run a built-in workflow with these scripted answers, or with none; it must complete and verify."""
    if answers is not None:
        (project / "answers.yaml").write_text(yaml.safe_dump({"answers": answers}))
        (project / "sapwood.toml").write_text('provider_options = {script = "answers.yaml"}\n')
    key = sapwood.run_workflow(name, inputs={"task": "count leaves"}, store=store, project=project)
    assert store.runs(limit=1)[0].status == "completed"
    assert store.verify(key).is_ok
    return key


@pytest.mark.parametrize("name", ["single", "self_critique", "team", "phased"])
def test_each_runs_offline_without_a_script(name: str, project: Path, store: Store) -> None:
    run(name, project, store)
    assert documents(project)


def test_single_writes_one_document_named_after_the_run(project: Path, store: Store) -> None:
    key = run("single", project, store, {"single": [{"report": "done"}]})
    assert documents(project) == {f"docs/single_{key.text.removeprefix('ak:')}.md"}


def test_self_critique_keeps_each_review_and_ends_with_the_final_text(project: Path, store: Store) -> None:
    answers = {
        "draft": [{"report": "first"}],
        "review": [{"report": "no", "decision": "changes_requested"}, {"report": "yes", "decision": "approved"}],
        "revise": [{"report": "second"}],
        "final": [{"report": "# Final"}],
    }
    run("self_critique", project, store, answers)
    assert documents(project) == {
        "docs/draft.md",
        "docs/reviews/review_1.md",
        "docs/reviews/review_2.md",
        "docs/final.md",
    }
    assert (project / "docs/draft.md").read_text() == "second"
    assert (project / "docs/reviews/review_2.md").read_text() == "yes"
    assert (project / "docs/final.md").read_text() == "# Final"


def test_self_critique_ends_after_three_rounds(project: Path, store: Store) -> None:
    run("self_critique", project, store, {"review": [{"report": "never", "decision": "changes_requested"}]})
    assert documents(project) == {
        "docs/draft.md",
        "docs/final.md",
        *(f"docs/reviews/review_{n}.md" for n in (1, 2, 3, 4)),
    }


def test_team_plans_again_after_an_audit_and_joins(project: Path, store: Store) -> None:
    answers: dict[str, list[dict[str, Any]]] = {
        "plan": [
            {
                "report": "plan 1",
                "data": {"tasks": [{"name": "roots", "brief": "dig"}, {"name": "crown", "brief": "climb"}]},
            },
            {"report": "plan 2", "data": {"tasks": [{"name": "bark", "brief": "peel"}]}},
        ],
        "audit": [{"report": "more", "decision": "changes_requested"}, {"report": "fine", "decision": "approved"}],
        "final": [{"report": "# Done"}],
    }
    run("team", project, store, answers)
    assert documents(project) == {
        "docs/TODO.md",
        "docs/ProjectManager.md",
        "docs/team_plan_1.md",
        "docs/team_plan_2.md",
        "docs/tasks/roots.md",
        "docs/tasks/crown.md",
        "docs/tasks/bark.md",
        "docs/audits/audit_1.md",
        "docs/audits/audit_2.md",
        "docs/final.md",
    }
    assert (project / "docs/team_plan_2.md").read_text() == "plan 2"


def test_phased_ends_each_phase_with_a_handoff_and_links_tickets_to_the_discovery(project: Path, store: Store) -> None:
    key = run("phased", project, store)
    with store.artifacts.read() as reader:
        kinds = ["DiscoveryReport", "PlanningTicket", "PhaseHandoff"]
        made = [from_record(record) for record in reader.load_kinds(key, kinds)]
    (report,) = (one for one in made if isinstance(one, DiscoveryReport))
    (ticket,) = (one for one in made if isinstance(one, PlanningTicket))
    assert ticket.tasks[0].discovery_links[0].report == report.key
    assert [one.phase for one in made if isinstance(one, PhaseHandoff)] == [1, 1, 2, 3]
    assert documents(project) >= {
        f"docs/{name}_1.md" for name in ("discovery", "planning", "implementation", "validation")
    }


def test_a_discovery_that_is_no_discovery_report_fails_the_run(project: Path, store: Store) -> None:
    (project / "answers.yaml").write_text("answers: {discovery: [{report: I looked around}]}")
    (project / "sapwood.toml").write_text('provider_options = {script = "answers.yaml"}\n')
    key = sapwood.run_workflow("phased", inputs={"task": "x"}, store=store, project=project)
    assert store.runs()[0].status == "failed"
    assert store.verify(key).is_ok
