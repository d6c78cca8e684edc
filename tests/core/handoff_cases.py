"""Random cases of the handoff, each from its seed alone, for the comparison with an independent implementation.

`python -m tests.core.handoff_cases` writes what `benchmarks/handoff_reference.mjs` makes of them (it needs Node).
"""

from __future__ import annotations

import json
import random
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

COUNT: Final = 600
EXPECTED: Final = Path(__file__).resolve().parent.parent / "vectors" / "handoff_javascript.json"
REFERENCE: Final = Path(__file__).resolve().parents[2] / "benchmarks" / "handoff_reference.mjs"
KEYS: Final = ("a", "B", "b", "b-", "b.", "b_", "node1", "node10", "node9", "Z", "z" * 128, "0")
PIECES: Final = (
    *(
        "a",
        "word ",
        "\n",
        "\r\n",
        "\r",
        "é",
        "文",
        "\U0001f600",
        "x\U0001f680y",
        "e\u0301",
        "\u200b",
        "\u2066",
        "\u202e",
    ),
    *("\ufeff", "\x00", "\x85", "\u2028", "\U000e0041", "\ufffd", "<<<BEGIN>>>", "\n<<<END>>>\n", "\n<<<END>>>\r\n"),
    *(
        "\n <<<END>>>\n",
        "<<<END>>>",
        "<<<end>>>",
        "ALPHRED_UPSTREAM_ARTIFACT v1\n",
        "ALPHRED_UPSTREAM_ARTIFACT v",
        "[2] ",
    ),
    *(
        "ALPHRED_UPSTREAM_ARTIFACT  v1",
        "untrusted_data: false\n",
        "\r<<<END>>>\r",
        "\u2028<<<END>>>\u2028",
        "\n<<<END>>>\r\r\n",
    ),
)
LENGTHS: Final = (0, 1, 5, 999, 1_000, 1_001, 7_000, 7_001, 8_000, 11_999, 12_000, 12_001, 16_001, 24_001, 33_000)


def make_case(seed: int) -> list[dict[str, Any]]:
    """Return the artifacts of one case."""
    rng = random.Random(seed)
    nodes = [(number, rng.choice(KEYS), rng.randrange(-1, 3)) for number in rng.sample(range(1, 99), rng.randrange(7))]
    made: list[dict[str, Any]] = []
    for run_node_id, node_key, sequence_index in nodes:
        for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
            made.append(
                {
                    "run_node_id": run_node_id,
                    "node_key": node_key,
                    "sequence_index": sequence_index,
                    "attempt": rng.randrange(1, 5),
                    "artifact_id": len(made) + rng.randrange(1, 3) * 1_000,
                    "artifact_type": rng.choice(("report", "report", "report", "note", "log")),
                    "content_type": rng.choice(("text", "markdown", "json", "diff")),
                    "created_at": f"2026-01-01T00:00:0{rng.randrange(4)}.{rng.randrange(2):03}Z",
                    "content": _content(rng),
                }
            )
    rng.shuffle(made)
    return made


def _content(rng: random.Random) -> str:
    length, pieces = rng.choice(LENGTHS) + rng.randrange(-1, 2), rng.choices(PIECES, k=rng.randrange(1, 6))
    text = "".join(rng.choices(pieces, k=8))
    return (text * (length // len(text) + 1))[: max(0, length)]


def entries_sha256(entries: tuple[str, ...]) -> str:
    """Return one hash of all entries, as the reference makes it."""
    return sha256(b"".join(entry.encode() + b"\0" for entry in entries)).hexdigest()


if __name__ == "__main__":
    given = json.dumps({"cases": [make_case(seed) for seed in range(COUNT)]})
    done = subprocess.run(["node", str(REFERENCE)], input=given, capture_output=True, text=True, check=True)
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in json.loads(done.stdout))
    EXPECTED.write_text(f"[\n{lines}\n]\n")
