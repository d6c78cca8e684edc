"""Settings enter once: flags over `SAPWOOD_*` variables over `sapwood.toml` over defaults, as one frozen value."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sapwood.errors import InvalidSettings, plain_words

FILE_NAME = "sapwood.toml"
VARIABLE_PREFIX = "SAPWOOD_"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the parts of the program are told; each part gets only what it needs."""

    project: Path = Path()
    store: str = ".sapwood/sapwood.db"
    """Where runs are kept: a path below the project, an absolute path, or later a PostgreSQL address."""
    provider: str = "scripted"
    provider_options: Mapping[str, Any] = field(default_factory=dict)
    template_roots: tuple[str, ...] = ()
    """Directories of templates beyond the packaged ones and the project's own `templates/`."""
    tokenizer: str = "chars/4"
    phases: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the phase manifests, by phase number."""
    handoff: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the handoff policy's bounds."""
    ingest: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, Any] = field(default_factory=dict)
    """Cost per million tokens, by model: `{input = 3.0, output = 15.0}`."""

    @property
    def store_path(self) -> str:
        """The store's address, with a relative path taken from the project."""
        return self.store if "://" in self.store else str(self.project / self.store)

    @classmethod
    def read(cls, flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
        """Merge the four sources; raise InvalidSettings with the source, the name and what is allowed."""
        given = {name: value for name, value in flags.items() if value is not None}
        project = Path(given.get("project") or environ.get(VARIABLE_PREFIX + "PROJECT") or ".")
        merged = {
            **_from_file(project / FILE_NAME),
            **_from_environ(environ),
            **{name: _checked("flag", name, value) for name, value in given.items()},
        }
        return cls(**{**merged, "project": project})


_KINDS = {"Path": str, "str": str, "tuple[str, ...]": tuple, "Mapping[str, Any]": dict}
_FIELDS: dict[str, type] = {entry.name: _KINDS[str(entry.type)] for entry in fields(Settings)}
_WORDS: dict[type, str] = {str: "text", tuple: "a list of texts", dict: "a table"}


def _from_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes().decode()
        values = tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except RecursionError:
        raise InvalidSettings(str(path), "cannot be read: lists or tables nested too deep") from None
    except (OSError, ValueError) as error:  # no text, no TOML, or a number of more digits than the interpreter reads
        raise InvalidSettings(str(path), f"cannot be read: {plain_words(error)}") from None
    if "project" in values:
        raise InvalidSettings(f"project ({path})", "the file stands in the project; say it by flag or SAPWOOD_PROJECT")
    return {name: _checked(str(path), name, value) for name, value in values.items()}


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    """Take the variables, which hold text or a list (separated by `:`); tables belong in the file."""
    found: dict[str, Any] = {}
    for name, kind in _FIELDS.items():
        variable = VARIABLE_PREFIX + name.upper()
        text = environ.get(variable)
        if text and kind is dict:
            raise InvalidSettings(f"{variable} (environment)", f"a table cannot be said here; put it in {FILE_NAME}")
        if text:
            value = text.split(":") if kind is tuple else text
            found[name] = _checked("environment", variable, value, name)
    return found


def _checked(source: str, shown: str, value: Any, name: str = "") -> Any:
    name = name or shown
    where = f"{shown} ({source})"
    kind = _FIELDS.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, _FIELDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(_FIELDS))}"
        raise InvalidSettings(where, f"unknown; {hint}")
    if kind is tuple and isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if kind is tuple or not isinstance(value, Path if name == "project" and isinstance(value, Path) else kind):
        raise InvalidSettings(where, f"expected {_WORDS[kind]}, got {type(value).__name__}")
    return value
