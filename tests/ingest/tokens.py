"""Synthetic credentials, one maker a kind: the right shape, random, and valid nowhere."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
URL64 = ALNUM + "_-"
B64 = ALNUM + "+/"

Maker = Callable[[random.Random], str]


def _of(prefix: str, alphabet: str, length: int, suffix: str = "") -> Maker:
    return lambda rng: prefix + "".join(rng.choices(alphabet, k=length)) + suffix


def _jwt(rng: random.Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': str(rng.random())})}.{_of('', URL64, 43)(rng)}"


def _pem(kind: str) -> Maker:
    def make(rng: random.Random) -> str:
        lines = "\n".join(_of("", B64, 64)(rng) for _ in range(4))
        return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----"

    return make


def _joined(*makers: Maker) -> Maker:
    return lambda rng: "".join(make(rng) for make in makers)


KINDS: dict[str, Maker] = {
    "AWS access key": _of("AKIA", UPPER, 16),
    "AWS temporary key": _of("ASIA", UPPER, 16),
    "AWS secret": _of("aws_secret_access_key=", B64, 40),
    "GitHub personal": _of("ghp_", ALNUM, 36),
    "GitHub OAuth": _of("gho_", ALNUM, 36),
    "GitHub user": _of("ghu_", ALNUM, 36),
    "GitHub server": _of("ghs_", ALNUM, 36),
    "GitHub refresh": _of("ghr_", ALNUM, 36),
    "GitHub fine-grained": _joined(_of("github_pat_", ALNUM, 22), _of("_", ALNUM, 59)),
    "GitLab": _of("glpat-", URL64, 20),
    "OpenAI": _of("sk-", ALNUM, 48),
    "OpenAI project": _of("sk-proj-", URL64, 80),
    "OpenAI service account": _of("sk-svcacct-", URL64, 60),
    "Anthropic": _of("sk-ant-api03-", URL64, 93, "AA"),
    "Anthropic admin": _of("sk-ant-admin01-", URL64, 93, "AA"),
    "Google API key": _of("AIza", URL64, 35),
    "Google OAuth token": _of("ya29.", URL64, 60),
    "Google client secret": _of("GOCSPX-", URL64, 28),
    "Slack bot": _joined(_of("xoxb-", string.digits, 12), _of("-", string.digits, 13), _of("-", ALNUM, 24)),
    "Slack user": _joined(_of("xoxp-", string.digits, 12), _of("-", string.digits, 12), _of("-", HEX, 32)),
    "Slack app": _joined(_of("xapp-1-A", UPPER, 10), _of("-", string.digits, 13), _of("-", HEX, 64)),
    "Slack webhook": _of("https://hooks.slack.com/services/T00000000/B00000000/", ALNUM, 24),
    "Hugging Face": _of("hf_", ALNUM, 34),
    "private key": _pem("PRIVATE KEY"),
    "RSA private key": _pem("RSA PRIVATE KEY"),
    "OpenSSH private key": _pem("OPENSSH PRIVATE KEY"),
    "PGP private key": _pem("PGP PRIVATE KEY BLOCK"),
    "bearer header": _of("Authorization: Bearer ", URL64, 40),
    "basic header": lambda rng: (
        "Authorization: Basic " + base64.b64encode(_of("user:", ALNUM, 17)(rng).encode()).decode()
    ),
    "JWT": _jwt,
    "Stripe": _of("sk_live_", ALNUM, 24),
    "Twilio": _of("SK", HEX, 32),
    "SendGrid": _joined(_of("SG.", URL64, 22), _of(".", URL64, 43)),
    "npm": _of("npm_", ALNUM, 36),
    "PyPI": _of("pypi-AgEIcHlwaS5vcmc", ALNUM, 120),
    "DigitalOcean": _of("dop_v1_", HEX, 64),
    "Shopify": _of("shpat_", HEX, 32),
    "Telegram": _joined(_of("", "123456789", 10), _of(":AA", URL64, 33)),
    "Databricks": _of("dapi", HEX, 32),
    "Azure storage": _of("AccountKey=", B64, 86, "=="),
    "Vault": _of("hvs.", URL64, 90),
    "Docker": _of("dckr_pat_", URL64, 27),
    "Groq": _of("gsk_", ALNUM, 52),
    "database address": _of("postgresql://app:S3cr3t", ALNUM, 12, "@db.example.org/x"),
    "assigned password": _of("password='4f9", ALNUM, 20, "'"),
}
