"""`sapwood`: finds the command, runs it, and turns every typed error into one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from sapwood.cli.stops import Stop, Stops
from sapwood.cli.untrusted import visible
from sapwood.errors import InvalidWorkflow, SapwoodError
from sapwood.version import __version__

# Name -> (module below sapwood.cli.commands, one line for --help). A module is imported when its command runs.
COMMANDS: dict[str, tuple[str, str]] = {
    "answer": ("answer", "Answer the question of a gate."),
    "budget": ("budget", "How often token budgets were hit, and which are too tight or never used."),
    "cancel": ("cancel", "End a run; its record is sealed as cancelled."),
    "check": ("check", "Check workflow files: every mistake with its place and what is allowed."),
    "context": ("context", "What a node saw, entry by entry, and why."),
    "demo": ("demo", "Record, show, rebuild and verify a small multi-agent run, offline."),
    "doctor": ("doctor", "Look for interrupted runs, leftover spools and what else is wrong around a store."),
    "graph": ("graph", "Draw the graph of a workflow."),
    "ingest": ("ingest", "Write the files that a document declares, undo that, or list what landed."),
    "pause": ("pause", "Let what runs end and start nothing more."),
    "reconstruct": ("reconstruct", "Rebuild what happened in a run from its tree alone."),
    "resume": ("resume", "Go on with a run that was interrupted or paused."),
    "run": ("run", "Run a workflow file, or a built-in workflow by its name."),
    "runs": ("runs", "List the runs of a store, newest first."),
    "show": ("show", "Show the tree of a run, or of any part of it."),
    "templates": ("templates", "List template families, their versions, and who used them."),
    "verify": ("verify", "Recompute everything about a run, or about all runs, and report what is wrong."),
}

INTERRUPTED = 130  # as shells have it: 128 and the number of the signal
NOBODY_READS = 141
COULD_NOT = 4
EXIT_CODES = "Exit codes: 0 fine, 1 the answer is no, 2 usage, 3 not found, 4 could not do it."


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports only the one that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with Stops() as stops:
            module = import_module(f"sapwood.cli.commands.{COMMANDS[cmd_name][0]}")
            stops.check()
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:  # click knows those alone that it holds
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with reading_may_end():  # --help prints while the words are read
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with reading_may_end():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except Stop as stop:
            raise SystemExit(stop.exit_code) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@contextmanager
def reading_may_end() -> Iterator[None]:
    """End with an exit code of its own when whoever read has gone, as `head` does: that is neither yes nor no."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered goes nowhere
        raise SystemExit(NOBODY_READS) from None


def open_closed_outputs() -> None:
    """Give what is printed a place to go where the caller closed standard output or error: nowhere."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)  # else a file of the store could get this number
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115 (open to the end)


@click.command(cls=LazyGroup, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sapwood", message="%(prog)s %(version)s")
def cli() -> None:
    """Run multi-agent workflows, hand each agent exactly the context it should get, and prove what happened."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    open_closed_outputs()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # terminals that know fewer characters than we write
    try:
        cli.main(args=None if arguments is None else list(arguments), prog_name="sapwood")
    except SapwoodError as error:
        for line in error.findings if isinstance(error, InvalidWorkflow) else [f"sapwood: {error}"]:
            click.echo(visible(str(line)), err=True)
        sys.exit(error.exit_code)
    except OSError as error:  # a file or folder of which no command has more to say
        named = f"{error.filename}: " if error.filename is not None else ""
        click.echo(visible(f"sapwood: could not do it: {named}{error.strerror or error}"), err=True)
        sys.exit(COULD_NOT)
