"""What a project lets its agents write: name rules, limits, and what happens when something goes wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from sapwood.errors import InvalidSettings, shown

# Files that run code by merely being there, or that hold secrets.
_RUN_BY_TOOLS = (".git", ".gitmodules", ".github", ".pre-commit-config.yaml", ".envrc")
_RUN_BY_EDITORS = (".vscode", ".idea", ".cursor", ".claude", ".mcp.json")
_HOLD_SECRETS = (".ssh", ".gnupg", ".env", ".npmrc", ".pypirc", ".netrc")
_SH = (".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".kshrc", ".mkshrc")
_ZSH_AND_CSH = (".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".login", ".logout")
_X = (".xprofile", ".xinitrc", ".xsessionrc")
DENIED_NAMES: Final = frozenset((*_RUN_BY_TOOLS, *_RUN_BY_EDITORS, *_HOLD_SECRETS, *_SH, *_ZSH_AND_CSH, *_X))


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """The largest path, file and document that is accepted."""

    max_depth: int = 32
    max_component_bytes: int = 255
    max_path_bytes: int = 1024
    max_file_bytes: int = 10 * 1024 * 1024
    max_total_bytes: int = 100 * 1024 * 1024
    max_blocks: int = 10_000

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if type(value) is not int or value < 0:
                raise InvalidSettings(f"ingest.limits.{limit.name}", f"{shown(value)} is not a count")


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """How documents are ingested.

    `deny_names` is a set of names, `True` for the default set, `False` or empty for none. `portable_names` and
    `visible_names` are `False` to allow names that another system, or a reader's eye, would take for something else.
    `limits` may be given as a mapping. `on_error` is `continue` (fail-open) or `fail`.
    """

    deny_names: frozenset[str] = DENIED_NAMES
    portable_names: bool = True
    visible_names: bool = True
    limits: IngestLimits = field(default_factory=IngestLimits)
    on_error: str = "continue"

    def __post_init__(self) -> None:
        object.__setattr__(self, "deny_names", _names(self.deny_names))
        if isinstance(self.limits, Mapping):
            object.__setattr__(self, "limits", _limits(self.limits))
        if not isinstance(self.limits, IngestLimits):
            raise InvalidSettings("ingest.limits", f"{shown(self.limits)} is not a table of limits")
        _expect("portable_names", self.portable_names, (True, False))
        _expect("visible_names", self.visible_names, (True, False))
        _expect("on_error", self.on_error, ("continue", "fail"))

    @classmethod
    def of(cls, given: IngestSettings | Mapping[str, Any] | None) -> IngestSettings:
        """Return settings from settings, from a mapping (limits may stand beside the other names), or the defaults."""
        if given is None:
            return cls()
        if isinstance(given, IngestSettings):
            return given
        if not isinstance(given, Mapping):
            raise InvalidSettings("ingest", f"{shown(given)} is not a table of settings")
        own = {name.name for name in fields(cls)}
        chosen = {name: value for name, value in given.items() if name in own}
        flat = {name: value for name, value in given.items() if name not in own}
        if flat:
            limits = chosen.get("limits", {})
            if not isinstance(limits, Mapping):
                raise InvalidSettings("ingest.limits", f"{shown(limits)} is not a table of limits")
            chosen["limits"] = {**limits, **flat}
        return cls(**chosen)


def _names(given: object) -> frozenset[str]:
    if given is True:
        return DENIED_NAMES
    if given is False or given is None:
        return frozenset()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidSettings("ingest.deny_names", f"{shown(given)} is not a set of names")
    return frozenset(str(name).casefold() for name in given)


def _limits(given: Mapping[str, Any]) -> IngestLimits:
    known = {limit.name for limit in fields(IngestLimits)}
    unknown = sorted(map(str, set(given) - known))
    if unknown:
        raise InvalidSettings(f"ingest.{unknown[0]}", f"unknown; the limits are {', '.join(sorted(known))}")
    return IngestLimits(**given)


def _expect(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise InvalidSettings(f"ingest.{name}", f"{shown(value)} is not one of {', '.join(map(str, allowed))}")
