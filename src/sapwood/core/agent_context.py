"""AgentContext: what all agent requests and results can do: name their key, and say what a reader needs of them."""

from __future__ import annotations

import re
from typing import Final, Literal, Protocol

from sapwood.core.canonical import canonical_json
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.shapes import fields_of, given
from sapwood.errors import InvalidArtifact, shown

Reader = Literal["standard", "interrupt", "goal_resolution", "merge_summary", "results"]

_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")

# The fields each reader is shown, in this order; None: all of them.
SHOWN: Final[dict[str, tuple[str, ...] | None]] = {
    "standard": None,
    "interrupt": ("goal", "question", "options", "state"),
    "goal_resolution": ("goal", "outcome", "evidence"),
    "merge_summary": ("changed_files", "verdicts", "risks"),
    "results": ("result",),
}


class AgentContext(Protocol):
    """The protocol of agent requests and results."""

    @property
    def artifact_key(self) -> ArtifactKey:
        """The key that everything this agent emits stands below."""

    def serialize(self, *, for_: Reader = "standard") -> str:
        """Return what this reader needs, as one `name: JSON` line for each field that was given."""


class AgentModel(Artifact, frozen=True):
    """The base of the kinds that are an AgentContext."""

    @property
    def artifact_key(self) -> ArtifactKey:
        return self.key

    def serialize(self, *, for_: Reader = "standard") -> str:
        """Return what this reader needs, as one `name: JSON` line for each field that was given."""
        if not isinstance(for_, str) or for_ not in SHOWN:
            raise InvalidArtifact(
                f"{self.kind}.serialize", f"for_ is {shown(for_)}; expected one of {', '.join(SHOWN)}"
            )
        fields = given(self, fields_of(type(self)), {})
        names = SHOWN[for_]
        if names is None:
            fields.update(kind=self.kind, metadata=self.metadata)
            unknown = {f"unknown.{name}" if name in fields else name: value for name, value in self.unknown.items()}
            fields.update(unknown)
            names = tuple(sorted(fields))
        return "\n".join(f"{_shown(name)}: {canonical_json(fields[name]).decode()}" for name in names if name in fields)


def _shown(name: str) -> str:
    """Return the name, as JSON where it could be taken for more: no unknown field can write a line of another."""
    return name if _PLAIN.fullmatch(name) else canonical_json(name).decode()
