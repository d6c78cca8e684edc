"""Finding a version by what a person writes, and showing how two of them differ."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence

from sapwood.core.template import TemplateId, TemplateVersion
from sapwood.errors import NotFound
from sapwood.ports import TemplateStore

HASH_CHARS = 12

Current = Callable[[str], TemplateVersion | None]
"""Gives the version that is in use for an id, if one is."""


def find_named(store: TemplateStore, name: str, current: Current) -> TemplateVersion:
    """Return the version that `ID`, `ID@HASH` or a key names; `ID` alone is its current version, else its newest."""
    if "@" not in name and (in_use := current(name)):
        return in_use
    if name.startswith("ak:"):
        candidates = [version for version in store.list_versions() if version.key.text == name]
    else:
        family, at, digest = name.partition("@")
        if at and not digest:
            raise NotFound(f"template {name}", "write the first digits of its hash after the @")
        candidates = [version for version in family_versions(store, family) if version.content_hash.startswith(digest)]
        if digest and len({version.key for version in candidates}) > 1:
            raise NotFound(f"one version {name}", f"{len(candidates)} have that hash; write more of it")
    if not candidates:
        raise NotFound(f"template {name}", "`sapwood templates list` shows what there is")
    return candidates[-1]


def family_versions(store: TemplateStore, template_id: str) -> list[TemplateVersion]:
    """Return the versions of exactly this id, oldest first."""
    family = TemplateId(template_id)
    return [version for version in store.list_versions(template_id) if version.template_id == family]


def find_pair(store: TemplateStore, names: Sequence[str], current: Current) -> tuple[TemplateVersion, TemplateVersion]:
    """Return the two named versions; for one id alone its newest other version and the current one."""
    new = find_named(store, names[-1], current)
    if len(names) == 2:
        return find_named(store, names[0], current), new
    others = [version for version in family_versions(store, new.template_id.text) if version.key != new.key]
    if not others:
        raise NotFound(f"another version of {new.template_id}", "it has only one")
    return others[-1], new


def version_diff(old: TemplateVersion, new: TemplateVersion) -> Iterator[str]:
    """Give the lines of a unified diff of the two texts, without line ends."""
    texts = _lines(old.text), _lines(new.text)
    for line in difflib.unified_diff(*texts, short_name(old), short_name(new), lineterm=""):
        yield from line.split("\n")


def _lines(text: str) -> list[str]:
    """Return the lines of a text; one that no line feed ends brings the line that says so."""
    *lines, rest = text.split("\n")
    return [*lines, f"{rest}\n\\ No newline at end of file"] if rest else lines


def short_name(version: TemplateVersion) -> str:
    """Return the name that finds this version again."""
    return f"{version.template_id}@{version.content_hash[:HASH_CHARS]}"
