"""What the reading commands share: which store they mean, and opening it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sapwood.settings import Settings

if TYPE_CHECKING:
    from sapwood.runtime.session import Store

Command = TypeVar("Command", bound=Callable[..., Any])


def store_options(command: Command) -> Command:
    """Add --store, --project and --json."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option("--project", default=".", help="The project; its store is used."),
        click.option("--store", help="The store; the project's own if not given."),
    ):
        command = option(command)
    return command


def same_place() -> str:
    """Return what a proposed command needs to find the store that this one works on: the options it was given."""
    context = click.get_current_context(silent=True)
    given = {} if context is None else context.params
    usual = {"project": ".", "store": None}
    return "".join(
        f" --{name} {shlex.quote(given[name])}"
        for name in usual
        if given.get(name, usual[name]) not in (None, usual[name])
    )


def open_existing(store: str | None, project: str) -> Store:
    """Open the store that the options name; one that is not there is not made."""
    from sapwood.app import open_store

    return open_store(Settings.read({"project": project, "store": store}, os.environ).store_path, create=False)
