"""Recording whose result can be checked from outside: every call carries a token, every token says its own content.

A call is `done` when it returned, and `safe` when a scope end or `flush()` after it returned. The first must survive
the death of the process, the second a power cut; whatever is stored must be whole, promised or not.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

import sapwood
from sapwood.app import open_store
from sapwood.core.record import Record
from sapwood.runtime.scope import Agent
from sapwood.runtime.session import Store

TEMPLATE_ID = "tpl.agent.crash.prompt"
TEMPLATE = "Token {{ token }}: {{ filler }}\n"
SAFE = "safe"
BELOW = {  # what a call leaves under its first artifact
    "ToolCallArtifact": {"ToolInput": 1, "ToolOutput": 1},
    "RenderedPrompt": {"RefArtifact": 1, "PromptArgs": 1, "PromptContribution": 2},
}

Acknowledge = Callable[[str], None]


@lru_cache(1000)
def filler(token: str) -> str:
    """Return the content that belongs to a token: up to 2 KB, some of them 40 KB so that they become chunks."""
    digest = sha256(token.encode()).hexdigest()
    size = int(digest[:4], 16) % 2000 if digest[4] != "0" else 40_000
    return (digest * (size // 64 + 1))[:size]


def record_call(agent: Agent, token: str) -> None:
    """Make one recording call; which, the token says."""
    text = filler(token)
    match sha256(token.encode()).digest()[-1] % 4:
        case 0:
            agent.tool_call("grep", input={"token": token, "filler": text}, output={"token": token, "lines": [text]})
        case 1:
            parts = [sapwood.Contribution(name=f"{token}-{part}", text=text, order=part) for part in range(2)]
            agent.prompt(TEMPLATE_ID, args={"token": token, "filler": text}, contributions=parts)
        case 2:
            agent.report(f"{token}\n{text}", content_type="markdown")
        case _:
            agent.note(f"{token}\n{text}")


def register(store: Store) -> None:
    store.templates.register(TEMPLATE_ID, TEMPLATE, variables=["token", "filler"])


def record_runs(
    path: Path, name: str, seed: int, done: Acknowledge, runs: int | None = None, scopes: int = 6, calls: int = 8
) -> None:
    """Record run after run, until killed or until `runs` of them are sealed."""
    rng, numbers = random.Random(seed), count()
    with sapwood.open(path) as store:
        register(store)
        for _ in range(runs) if runs is not None else count():
            with store.record(config={"models": {"name": name}}, inputs={"seed": seed}) as run:
                for scope in range(rng.randint(1, scopes)):
                    with run.agent(f"node-{scope}", request={"scope": scope}) as agent:
                        for _ in range(rng.randint(0, calls)):
                            token = f"{name}-{next(numbers)}"
                            record_call(agent, token)
                            done(token)
                        if rng.random() < 0.2:
                            agent.flush()
                            done(SAFE)
                    done(SAFE)
            done(SAFE)


def safe_tokens(acknowledged: Iterable[str]) -> set[str]:
    """Return the tokens before the last SAFE."""
    tokens: list[str] = []
    safe = 0
    for word in acknowledged:
        if word == SAFE:
            safe = len(tokens)
        else:
            tokens.append(word)
    return set(tokens[:safe])


@dataclass
class Found:
    """What stands in a store, by token, and everything that is wrong with it."""

    tokens: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    interrupted: int = 0


def read_back(path: Path, allowed: Sequence[str] = ("interrupted",)) -> Found:
    """Open the store as the next start would, and check every call, whether it was acknowledged or not."""
    with open_store(path, create=False) as store:
        return read_store(store, allowed)


def read_store(store: Store, allowed: Sequence[str] = ("interrupted",)) -> Found:
    """Check everything that is committed in an open store; `verify` may find nothing but what is allowed."""
    found, below = Found(), dict[str, Counter[str]]()
    with store.artifacts.read() as reader:
        records = list(reader.load())
    for record in records:
        _check(record, found)
        if record.key.parent is not None:
            below.setdefault(record.key.parent.text, Counter())[record.kind] += 1
    for record in records:
        expected = BELOW.get(record.kind)
        if expected is not None and below.get(record.key.text, {}) != expected:
            found.problems.append(f"half a call: {record.kind} {record.key} has {below.get(record.key.text)}")
    found.problems += [f"stored twice: {token}" for token, times in found.tokens.items() if times > 1]
    for finding in store.verify().findings:
        found.interrupted += finding.code == "interrupted"
        if finding.code not in allowed:
            found.problems.append(f"{finding.code} {finding.key}: {finding.message}")
    return found


def _check(record: Record, found: Found) -> None:
    """Take note of the token of a call, and compare the bytes with what the token says."""
    if record.kind in ("Note", "Report"):
        token, _, text = record.content.decode().partition("\n")
    elif record.kind in ("ToolInput", "PromptArgs"):
        value: Any = msgspec.json.decode(record.content)
        token, text = value["token"], value["filler"]
    else:
        return
    found.tokens[token] += 1
    if text != filler(token):
        found.problems.append(f"wrong bytes: {record.kind} {record.key}")
