"""Request enrichment: the one way from what routing asks for to a request that may be executed.

Whichever path made it (edge, retry, loop, spawn, sub-workflow, recovery), a request gets its `context_id` and its
`previous_context` here, from what the run has persisted, before anything runs. `check_enriched` stands before every
execution and refuses a request that came another way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from msgspec import UnsetType

from sapwood.core.artifacts import AgentRequest, PreviousTry
from sapwood.core.keys import ArtifactKey
from sapwood.errors import InvalidKey, KeyTooDeep, NotEnriched

# Whose last request a request stands below; every other type stands directly below the run's agents.
PARENT_TYPES: Final[Mapping[str, str]] = {"PlanningAgentRequest": "PlanningOrchestratorRequest"}


class Keys(Protocol):
    """Mints keys."""

    def root(self) -> ArtifactKey: ...

    def child(self, parent: ArtifactKey, /) -> ArtifactKey: ...


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as routing makes it; nothing of it is stored yet."""

    node: str
    attempt: int
    run_node_id: int
    visit: int
    try_number: int
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Past:
    """What a run has persisted, as far as one request of one node can stand on it.

    `opener` is the AgentRequests container of the fan-out, or the request of the sub-workflow, that the node belongs
    to. `requests` are all requests of the run by node, each node's in order. `tries` are the node's own.
    """

    run_id: str
    agents: ArtifactKey | None
    opener: ArtifactKey | None
    requests: Mapping[str, Sequence[ArtifactKey]]
    tries: Sequence[PreviousTry]


def request_type(node: str) -> str:
    """Return the type of a node's requests: `planning_agent` makes a PlanningAgentRequest."""
    words = node.rpartition(".")[2].replace("-", "_").split("_")
    return "".join(word[:1].upper() + word[1:] for word in words) + "Request"


def find_parent(node: str, past: Past) -> ArtifactKey | None:
    """Return the request, container or group below which a new request of this node stands."""
    if past.opener is not None:
        return past.opener
    wanted = PARENT_TYPES.get(request_type(node))
    if wanted is None:
        return past.agents
    found = [key for other, keys in past.requests.items() if request_type(other) == wanted for key in keys]
    return max(found, key=lambda key: key.last_segment) if found else past.agents


def context_id(node: str, past: Past, keys: Keys) -> ArtifactKey:
    """Return a new key: below the parent that the history has, else below a run id that is a key, else a root."""
    parent = find_parent(node, past)
    try:
        return keys.child(parent or ArtifactKey(past.run_id))
    except KeyTooDeep:
        raise
    except InvalidKey:
        return keys.root()


def enrich(outgoing: Outgoing, past: Past, keys: Keys) -> AgentRequest:
    """Return the request with its context id and the tries before it, newest last."""
    return AgentRequest(
        context_id(outgoing.node, past, keys),
        node=outgoing.node,
        attempt=outgoing.attempt,
        request={"type": request_type(outgoing.node), "node": outgoing.node, **outgoing.request},
        previous_context=tuple(past.tries),
        run_node_id=outgoing.run_node_id,
        visit=outgoing.visit,
        try_=outgoing.try_number,
    )


def check_enriched(request: AgentRequest, agents: ArtifactKey) -> None:
    """Raise NotEnriched unless the request has its place below the run's agents, and all the tries before it."""
    if not agents.is_ancestor_of(request.context_id):
        raise NotEnriched(request.node, request.attempt, "its context id is not below the run's agents")
    if isinstance(request.previous_context, UnsetType):
        raise NotEnriched(request.node, request.attempt, "it has no previous context")
    if len(request.previous_context) != request.attempt - 1:
        what = f"its previous context has {len(request.previous_context)} of {request.attempt - 1} tries"
        raise NotEnriched(request.node, request.attempt, what)
