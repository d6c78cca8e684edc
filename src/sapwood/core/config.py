"""ExecutionConfig: all control state that it takes to do a run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from sapwood.core.expect import expect
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.shapes import fields_of, take, typed
from sapwood.core.typed import JsonObject, Text, Typed
from sapwood.errors import InvalidArtifact

NOT_GIVEN: Final = "not given"


class ModelRef(Typed, frozen=True):
    """A model that the run may call."""

    name: str
    provider: Text = UNSET
    role: Text = UNSET
    settings: JsonObject | msgspec.UnsetType = UNSET


class ToolRef(Typed, frozen=True):
    """A tool: whether the agents had it, and its limits."""

    name: str
    available: bool | msgspec.UnsetType = UNSET
    limits: JsonObject | msgspec.UnsetType = UNSET


class Policies(Typed, frozen=True):
    """The policies in force, each with all its values."""

    handoff: JsonObject | msgspec.UnsetType | None = UNSET
    budgets: JsonObject | msgspec.UnsetType | None = UNSET
    ingest: JsonObject | msgspec.UnsetType | None = UNSET


class WorkflowSource(Typed, frozen=True):
    """The workflow file as it was when the run started."""

    name: Text = UNSET
    text: Text = UNSET
    sha256: Text = UNSET


class ExecutionConfig(Artifact, frozen=True):
    """Every field is there; one that is null says why in `why_absent`."""

    models: tuple[ModelRef, ...] | JsonObject | None
    tools: tuple[ToolRef, ...] | JsonObject | None
    routing: Any
    loops: Any
    policies: Policies | None
    repository_snapshot: Any
    workflow: WorkflowSource | str | None
    versions: Any
    why_absent: JsonObject | msgspec.UnsetType = UNSET

    def __post_init__(self) -> None:
        super().__post_init__()
        reasons = {} if isinstance(self.why_absent, msgspec.UnsetType) else self.why_absent
        for name in CONFIG_FIELDS:
            reason = reasons.get(name)
            if getattr(self, name) is None and not (isinstance(reason, str) and reason.strip()):
                raise InvalidArtifact(f"ExecutionConfig.{name}", f"null without a reason in why_absent.{name}")


CONFIG_FIELDS: Final = (
    "models",
    "tools",
    "routing",
    "loops",
    "policies",
    "repository_snapshot",
    "workflow",
    "versions",
)


def execution_config(key: ArtifactKey, given: Mapping[str, Any]) -> ExecutionConfig:
    """Return the configuration `given`: a field that is absent becomes null, with "not given" as its reason.

    A model or tool may be given by its name alone. Names that are no fields are kept.
    """
    expect(given, Mapping, "config", "a table of the fields of ExecutionConfig")
    content = {**dict.fromkeys(CONFIG_FIELDS), **given}
    reasons = content.setdefault("why_absent", {})
    if isinstance(reasons, Mapping):
        absent = {name: NOT_GIVEN for name in CONFIG_FIELDS if content[name] is None}
        content["why_absent"] = {**absent, **reasons}
    for name in ("models", "tools"):
        if isinstance(content[name], str):
            content[name] = [content[name]]
        if isinstance(content[name], (list, tuple)):
            content[name] = [{"name": item} if isinstance(item, str) else item for item in content[name]]
    fields: JsonObject = {"key": key, "unknown": content}
    take(tuple(field for field in fields_of(ExecutionConfig) if field.name != "key"), content, fields)
    return typed(ExecutionConfig, fields, "ExecutionConfig")
