"""A small project for runs of workflows: one template that says its topic, and whatever files a test adds."""

from __future__ import annotations

from pathlib import Path

TEMPLATE = "{# variables: topic #}\nWrite about {{ topic | default('nothing') }}.\n"


def make_project(folder: Path, flow: str, **scripts: str) -> Path:
    """Write the template `tpl.agent.x.prompt`, `flow.yaml` and the scripted answers; return the project."""
    template = folder / "templates" / "agent" / "x" / "prompt.jinja"
    template.parent.mkdir(parents=True)
    template.write_text(TEMPLATE)
    (folder / "flow.yaml").write_text(flow)
    for name, script in scripts.items():
        (folder / f"{name}.yaml").write_text(script)
    return folder
