"""Outcome evidence of a run: what commands, people and providers gave as facts, each with where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sapwood.core.artifacts import AgentRequest, AgentResult, OutcomeEvidence
from sapwood.core.workflow import CommandNode
from sapwood.errors import InvalidArtifact
from sapwood.runtime.journal import Journal
from sapwood.runtime.world import Work

ACK = "ack"


def command_evidence(
    node: CommandNode, work: Work, journal: Journal, exit_code: int, merge: Mapping[str, Any] | None = None
) -> list[OutcomeEvidence]:
    """Return what the command proves, if its node says that it proves something; `merge` is what it merged."""
    if node.evidence is None:
        return []
    passed = exit_code in node.success_codes
    facts: dict[str, Any] = {**_origin(work), "command": list(node.run), "exit_code": exit_code}
    if merge is not None:
        result = AgentResult(work.attempt.request, status="completed" if passed else "failed", **merge)
        facts["summary"] = result.serialize(for_="merge_summary")
    return [_evidence(work, journal, node.evidence, passed, facts)]


def gate_evidence(
    request: AgentRequest, work: Work, journal: Journal, *, who: str | None, when: str, answer: str
) -> OutcomeEvidence:
    """Return who answered the gate, when and what."""
    facts = {**_origin(work), "question": request.question, "answer": answer, "who": who, "when": when}
    return _evidence(work, journal, ACK, answer == "approved", facts)


def provider_evidence(data: Mapping[str, Any], work: Work, journal: Journal) -> list[OutcomeEvidence]:
    """Return the facts in `data.evidence`: a list of objects with `name`, `passed` and what proves it."""
    given = data.get("evidence", [])
    if not isinstance(given, list | tuple):
        raise InvalidArtifact("data.evidence", f"is {type(given).__name__}; expected a list")
    return [_of_provider(one, place, work, journal) for place, one in enumerate(given)]


def _of_provider(given: Any, place: int, work: Work, journal: Journal) -> OutcomeEvidence:
    where = f"data.evidence[{place}]"
    name = given.get("name") if isinstance(given, Mapping) else None
    passed = given.get("passed") if isinstance(given, Mapping) else None
    if not isinstance(name, str) or not name or not isinstance(passed, bool | None):
        raise InvalidArtifact(where, "expected an object with a name, and passed as true, false or null")
    return _evidence(work, journal, name, passed, {**_origin(work), "facts": given.get("evidence")})


def _origin(work: Work) -> dict[str, Any]:
    return {"node": work.node.key, "attempt": work.attempt.number, "request": work.attempt.request.text}


def _evidence(work: Work, journal: Journal, name: str, passed: bool | None, facts: dict[str, Any]) -> OutcomeEvidence:
    return OutcomeEvidence(journal.keys.child(work.plan.evidence), name=name, passed=passed, evidence=facts)
