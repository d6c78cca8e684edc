"""What the executor has to work with: its neighbours, and one delivery of one attempt with what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.prompt import Contributor
from sapwood.core.provider import ProviderResult
from sapwood.core.workflow import CommandNode, Node
from sapwood.errors import SapwoodError
from sapwood.ports import Documents, Provider
from sapwood.runtime.history import Attempt, History, Level, Plan
from sapwood.runtime.meter import Meter
from sapwood.runtime.session import Store


@dataclass(frozen=True, slots=True)
class World:
    """What the executor asks of its neighbours; `app` puts it together.

    `contributors` add to every agent's prompt. Without a `project` nothing is written beside the store.
    """

    store: Store
    providers: Mapping[str, Provider]
    run_command: Callable[[CommandNode, str], Awaitable[tuple[int, str]]]
    project: Path | None = None
    documents: Documents | None = None
    contributors: Sequence[Contributor] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """One delivery of one attempt: where everything it makes belongs.

    `level` is the graph that its node is in, `folder` where its program works.
    """

    plan: Plan
    history: History
    level: Level
    node: Node
    attempt: Attempt
    delivery: ArtifactKey
    meter: Meter
    folder: Path | None = None

    @property
    def scope(self) -> dict[str, Any]:
        """Return what `${…}` may refer to in the node's texts."""
        return self.level.frame.scope(self.node.key)


@dataclass(frozen=True, slots=True)
class Done:
    """What a node's work came to. `error` makes it a failure, `is_final` one that another try would not mend.

    `products` are recorded with the result; `about` are further fields of the result itself.
    """

    result: ProviderResult
    error: str | None = None
    manifest: dict[str, Any] | None = None
    products: tuple[Artifact, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    is_final: bool = False

    @classmethod
    def failed(cls, error: Exception, manifest: dict[str, Any] | None = None) -> Done:
        """Return a failure for this reason."""
        words = str(error) if isinstance(error, SapwoodError) else f"{type(error).__name__}: {error}"
        return cls(ProviderResult(), words, manifest, is_final=getattr(error, "retryable", True) is False)
