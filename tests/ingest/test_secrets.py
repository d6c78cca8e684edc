"""Credentials that come in through any door are readable in no manifest, event or log."""

from __future__ import annotations

import logging
import random
import re
import sysconfig
import time
import uuid
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

import sapwood
from sapwood.core import redact as module
from sapwood.core.redact import BY_WORD, RULES, redact
from sapwood.ingest.workspace import Project
from tests.conftest import Dose
from tests.ingest.tokens import ALNUM, KINDS, URL64

PER_KIND = 25


def core_of(token: str) -> str:
    """Return the part of a token that must not be readable: its longest run of token characters, without its head."""
    runs: list[str] = re.findall(r"[A-Za-z0-9_+/-]+", token)
    return max(runs, key=len)[-16:]


def leaks(folder: Path, tokens: list[str], log: str) -> list[str]:
    places = [*(folder / ".sapwood" / "ingest").rglob("*"), folder / ".sapwood" / "events.jsonl"]
    text = "\n".join(str(path) + (path.read_text() if path.is_file() else "") for path in places) + log
    return [token for token in tokens if core_of(token) in text]


def through_every_sink(folder: Path, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bring a token in as path, language, run, node, document, exception text, and something to log."""
    one_line = re.sub(r"\s", "/", token)
    for document in (
        f"```text file=src/{one_line}.py\nx\n```\n",
        f"```text file=../{one_line}\nx\n```\n",
        f"```{one_line} file=a\nx\n```\n",
        f"```text file={token}\nx\n```\n",
        f"```text {one_line}\nx\n```\n",
    ):
        sapwood.ingest_document(document, folder, run_id=f"run {token}", node_id=token, doc_path=f"docs/{token}.md")
    with monkeypatch.context() as patch:

        def failing(*_: object) -> None:
            raise ValueError(f"cannot write {token}")

        patch.setattr(Project, "write", failing)
        sapwood.ingest_document("```text file=b\nx\n```\n", folder, run_id="r", node_id="n")


@pytest.mark.parametrize("kind", KINDS)
def test_no_credential_is_readable_after_any_sink(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = [KINDS[kind](random.Random(f"{kind} {number}")) for number in range(2)]
    for token in tokens:
        through_every_sink(tmp_path, token, monkeypatch)
    assert leaks(tmp_path, tokens, caplog.text) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_line_with_a_credential_names_the_rule_instead(kind: str) -> None:
    for number in range(PER_KIND):
        token = KINDS[kind](random.Random(f"{kind} {number}"))
        for line in (token, f"failed: {token} refused", f'{{"key": "{token}"}}', f"https://x.org/?k={token}&y=1"):
            safe = redact(line)
            assert core_of(token) not in safe, line
            assert "[redacted:" in safe


@pytest.mark.mutant
@pytest.mark.parametrize("name", ["github-token", "anthropic-key", "jwt", "private-key"])
def test_a_rule_that_is_missing_is_found_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kind = {"github-token": "GitHub OAuth", "anthropic-key": "Anthropic", "jwt": "JWT", "private-key": "private key"}[
        name
    ]
    assert any(rule.name == name for rule in RULES)
    monkeypatch.setattr(module, "BY_WORD", tuple(pair for pair in BY_WORD if pair[1].name != name))
    with pytest.raises(AssertionError):
        test_a_log_line_with_a_credential_names_the_rule_instead(kind)


def harmless_lines(rng: random.Random) -> Iterator[str]:
    """Give lines without end: hashes, keys, UUIDs, encoded bytes, and the source of the standard library."""
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("**/*.py"))
    keys = sapwood.KeyFactory()
    while True:
        for line in rng.choice(sources).read_text("utf-8", "replace").splitlines():
            yield line
            digest = sha256(rng.randbytes(8)).hexdigest()
            yield rng.choice(
                (
                    digest,
                    f"commit {digest[:40]}",
                    f'"sha256": "{digest}", "etag": "{digest[:32]}"',
                    f"{keys.child(keys.root()).text}",
                    f"key={keys.root().text} hash={digest}",
                    f"id: {uuid.UUID(int=rng.getrandbits(128), version=4)}",
                    "".join(rng.choices(ALNUM + "+/", k=76)),
                    "".join(rng.choices(URL64, k=64)),
                )
            )


@pytest.mark.torture(short=60_000, full=1_000_000)
def test_harmless_lines_raise_no_alarm(dose: Dose) -> None:
    alarms = []
    for line, _ in zip(harmless_lines(dose.rng), range(dose.count), strict=False):
        if redact(line) != line:
            alarms.append(line)
    if len(alarms) >= 10:
        dose.failures.append(f"{len(alarms)} alarms: {alarms[:5]}")


@pytest.mark.parametrize(
    "piece", ["eyJ", "sk-", "a.", "ghp_", "-----BEGIN PRIVATE KEY-----", "password=", "a://b:c", "SG.", "x"]
)
def test_time_grows_with_the_length_and_no_faster(piece: str) -> None:
    def seconds(count: int) -> float:
        started = time.process_time()  # what else the machine has to do does not count
        redact(piece * count)
        return time.process_time() - started

    count = 60_000 // len(piece)
    small, large = min(seconds(count) for _ in range(3)), min(seconds(8 * count) for _ in range(2))
    assert large < 8 * small * 4 + 0.05
