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
