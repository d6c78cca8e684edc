"""Canonical JSON of 1 KB payloads against rfc8785, on objects that no encoder has seen before."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import rfc8785

from sapwood.core.canonical import canonical_json

ROUNDS = 9
PAYLOADS = 400


def payload(rng: random.Random) -> dict[str, Any]:
    """Return about 1 KB like a tool's output: nested, some non-ASCII, some floats."""
    words = ["path", "ligne", "größe", "result", "token", "ünïcode", "value", "state"]
    return {
        "id": rng.randrange(2**40),
        "score": rng.random(),
        "ok": True,
        "none": None,
        "items": [
            {"name": rng.choice(words), "line": rng.randrange(5000), "text": " ".join(rng.choices(words, k=12))}
            for _ in range(7)
        ],
        "tags": rng.choices(words, k=6),
    }


def seconds(encode: Callable[[Any], bytes], texts: list[str]) -> float:
    values = [json.loads(text) for text in texts]  # fresh: CPython caches the UTF-8 form inside a str
    started = time.perf_counter()
    for value in values:
        encode(value)
    return time.perf_counter() - started


def main() -> None:
    rng = random.Random(1)
    texts = [json.dumps(payload(rng)) for _ in range(PAYLOADS)]
    size = sum(map(len, texts)) / PAYLOADS
    assert all(canonical_json(json.loads(text)) == rfc8785.dumps(json.loads(text)) for text in texts)
    ratios, ours = [], []
    for _ in range(ROUNDS):
        ours.append(seconds(canonical_json, texts))
        ratios.append(seconds(rfc8785.dumps, texts) / ours[-1])
    per_payload_us = statistics.median(ours) / PAYLOADS * 1e6
    print(
        f"canonical JSON of {size:.0f} characters: {per_payload_us:.1f} us; rfc8785 takes "
        f"{statistics.median(ratios):.1f} times as long ({min(ratios):.1f}-{max(ratios):.1f}); goal: at least 4"
    )


if __name__ == "__main__":
    main()
