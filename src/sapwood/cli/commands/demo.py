"""`sapwood demo`: records a small multi-agent run, shows its tree, rebuilds its prompts and verifies it, offline."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sapwood.cli.untrusted import visible

if TYPE_CHECKING:
    from sapwood.core.keys import ArtifactKey
    from sapwood.core.tree import ArtifactTree
    from sapwood.runtime.session import Store

DISCOVERY = "tpl.agent.demo.discovery"
REVIEW = "tpl.agent.demo.review"
PREVIEW_CHARS = 48


@click.command("demo", help="Record, show, rebuild and verify a small multi-agent run, offline.")
@click.option("--store", "store_path", type=click.Path(dir_okay=False), help="Keep the run in this store.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(store_path: str | None, as_json: bool) -> None:
    from sapwood.app import open_store

    with (
        tempfile.TemporaryDirectory(prefix="sapwood-demo-") as folder,
        open_store(store_path or Path(folder) / "demo.db") as store,
    ):
        run_key = record_run(store)
        tree = store.load(run_key)
        prompts = [record for record in tree.walk() if record.kind == "RenderedPrompt"]
        checked = store.verify(run_key)
    if as_json:
        summary = {"run": run_key.text, "artifacts": len(tree), "prompts": len(prompts), "head": checked.head}
        click.echo(json.dumps({**summary, "ok": checked.is_ok}))
    else:
        click.echo(f"A run of two agents and a sub-agent, as it was recorded:\n\n{draw(tree)}\n")
        equal = "equal to the byte" if checked.is_ok else "see the findings"
        click.echo(f"rebuilt   {len(prompts)} prompts from template, arguments and contributions: {equal}")
        click.echo(f"verified  {checked.artifacts} artifacts, {len(checked.findings)} findings")
        click.echo(f"head      {checked.head}")
        click.echo("\nKeep the head anywhere else: it exposes any later change of the record.")
    for finding in checked.findings:
        click.echo(f"{finding.code}  {finding.key}  {finding.message}", err=True)
    raise SystemExit(0 if checked.is_ok else 1)


def record_run(store: Store) -> ArtifactKey:
    """Record a discovery with a sub-agent and a review of it; return the run's key."""
    from sapwood.core.prompt import Contribution

    store.templates.register(DISCOVERY, "Find out how {{ topic }} works.", variables=["topic"])
    store.templates.register(REVIEW, "Review these findings about {{ topic }}.", variables=["topic"])
    with store.record(config={"models": ["demo"]}, inputs={"topic": "sap flow"}) as run:
        with run.agent("discovery", request={"depth": 2}) as discovery:
            parts = [Contribution(name="repo_map", text="src/tree.py  src/leaf.py", order=10)]
            discovery.prompt(DISCOVERY, args={"topic": "sap flow"}, contributions=parts)
            with discovery.agent("reader", request={"file": "src/tree.py"}) as reader:
                reader.tool_call("read_file", input={"path": "src/tree.py"}, output={"lines": 120})
                reader.note("Water rises through the outer rings.")
            discovery.report("# Findings\nSapwood carries, heartwood keeps.", content_type="markdown")
        with run.agent("review", request={"of": "discovery"}) as review:
            review.prompt(REVIEW, args={"topic": "sap flow"})
            review.report("Approved.", content_type="text")
        run.outcome("tests", passed=True, evidence={"count": 3})
    return run.key


def draw(tree: ArtifactTree) -> str:
    """Return the tree as indented lines: kind and the beginning of what it holds."""
    lines = []
    for record in tree.walk():
        words = record.content[: 4 * PREVIEW_CHARS].decode(errors="replace").split()
        preview = visible(" ".join(words))
        cut = preview[:PREVIEW_CHARS] + ("…" if len(preview) > PREVIEW_CHARS else "")
        lines.append(f"{'  ' * (record.key.depth - 1)}{record.kind}  {cut}".rstrip())
    return "\n".join(lines)
