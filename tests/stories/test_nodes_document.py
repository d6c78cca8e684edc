"""What docs/nodes.md shows is run: a plan with a retry, a fan-out of sub-workflows, a join, a document."""

from __future__ import annotations

from pathlib import Path

import sapwood
from sapwood.core.artifacts import AgentRequest, Report
from tests.runtime.world import all_of
from tests.test_documents import ROOT, blocks


def test_the_example_runs_as_the_page_says(tmp_path: Path) -> None:
    text = (ROOT / "docs/nodes.md").read_text()
    part, flow, answers = blocks(text, "yaml")
    plan, write = blocks(text, "jinja")
    files = {
        "part.yaml": part,
        "flow.yaml": flow,
        "answers.yaml": answers,
        "templates/agent/parts/plan.jinja": plan,
        "templates/agent/parts/write.jinja": write,
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    with sapwood.open(tmp_path / "runs.db") as store:
        run = sapwood.run_workflow(tmp_path / "flow.yaml", store=store, project=tmp_path)
        assert store.verify(run).is_ok
        assert [row.status for row in store.runs()] == ["completed"]
        requests = all_of(store, run.text, AgentRequest)
        reports = {one.node_key: one.text for one in all_of(store, run.text, Report)}
    names = {one.node for one in requests}
    assert {"parts.roots.write", "parts.leaves.check", "parts.roots", "save"} <= names
    assert [one.attempt for one in requests if one.node == "plan"] == [1, 2]
    assert reports["parts"].startswith("children: 2, failed: 0")
    written = (tmp_path / "docs/parts_1.md").read_text()
    assert "## parts.roots\n\nWater rises." in written
    assert "## parts.leaves\n\nLight falls." in written
