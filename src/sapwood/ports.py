"""What the layers above ask of the world: a few verbs each, written for the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from sapwood.core.template import TemplateId, TemplateVersion

Clock = Callable[[], int]
"""Gives the milliseconds since 1970."""

Entropy = Callable[[int], bytes]
"""Gives that many random bytes."""


class TemplateStore(Protocol):
    """Keeps template versions: one per (id, content hash), for ever."""

    def find_version(self, template_id: TemplateId, content_hash: str) -> TemplateVersion | None:
        """Return the version with this id and hash, or None."""

    def known_hashes(self, template_ids: Iterable[TemplateId]) -> set[tuple[str, str]]:
        """Return the (id, content hash) pairs that are stored for these ids; one query for many files."""

    def add_version(self, version: TemplateVersion) -> TemplateVersion:
        """Store `version` unless its (id, hash) is there; return the one that is stored now, whoever stored it."""

    def list_versions(self, prefix: str = "tpl") -> Sequence[TemplateVersion]:
        """Return the versions of every id in this family, by id, then by key."""


class Steps(Protocol):
    """What a run does, one verb a step. Each step adopts what the store already has, or does it and records it.

    A step may be run again after a crash, in another process, with an empty engine. What is expected to go wrong is
    recorded and returned; an exception means that the step could not be recorded. Answers are names and routing data,
    never texts: the engine keeps them.
    """

    async def route(self, run: str, running: Sequence[str]) -> list[str]:
        """Return the visits `<node>.<attempt>` to start now besides `running`; none of either ends the graph."""

    async def claim(self, run: str, node: str, attempt: int) -> float:
        """Open the attempt; return how many seconds it has to wait before it may be called."""

    async def call(self, run: str, node: str, attempt: int) -> str:
        """Do the node's work once; return the attempt's status."""

    async def finish(self, run: str) -> str:
        """Close the run as far as it can be closed; return its status."""


class Engine(Protocol):
    """Decides when the steps of a run are taken. Calls may come from any thread."""

    def submit(self, run: str) -> None:
        """Start `run` here, or continue it when nobody is at it. Raises RunBusy while a live process is."""

    def wait(self, run: str, timeout_s: float | None = None) -> str | None:
        """Return the status a submitted run ended with, or None after `timeout_s`. Raises what made it impossible."""

    def abandoned(self) -> list[str]:
        """Return the runs whose process has died, as the engine's database shows them now, oldest first."""

    def close(self) -> None:
        """Stop. What still runs is left unfinished and can be submitted again, here or elsewhere."""
