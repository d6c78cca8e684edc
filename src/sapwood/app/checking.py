"""A workflow as it would run in a project, checked without a store: nothing is recorded and nothing is written."""

from __future__ import annotations

import os

from sapwood.app import MEMORY, load_templates, open_store
from sapwood.app.runner import known_here
from sapwood.core.workflow import Workflow
from sapwood.core.workflow_build import Usual
from sapwood.settings import Settings
from sapwood.workflows.load import load_workflow


def check_here(path_or_name: str, project: str) -> Workflow:
    """Return the workflow; raise InvalidWorkflow with every mistake, NotFound when there is none."""
    settings = Settings.read({"project": project}, os.environ)
    with open_store(MEMORY) as store:
        known = known_here(load_templates(store, settings.project, settings.template_roots), store)
    return load_workflow(path_or_name, known, Usual(settings.provider, settings.provider_options))
