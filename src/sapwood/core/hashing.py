"""Content hashes: SHA-256 over canonical bytes, as 64 lower-case hexadecimal digits."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from sapwood.core.canonical import canonical_json
from sapwood.core.expect import expect
from sapwood.errors import InvalidText


def hash_bytes(data: bytes) -> str:
    """Return the hash of raw bytes."""
    expect(data, (bytes, bytearray), "data", "bytes")
    return sha256(data).hexdigest()


def hash_text(text: str) -> str:
    """Return the hash of the UTF-8 bytes of `text`."""
    return sha256(utf8(text, "text")).hexdigest()


def hash_json(value: Any) -> str:
    """Return the hash of the canonical JSON of `value`."""
    return sha256(canonical_json(value)).hexdigest()


def utf8(text: str, field: str) -> bytes:
    """Return `text` as UTF-8; raise InvalidText that names `field` when it holds a lone surrogate."""
    expect(text, str, field, "text")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidText(field, error.start) from None
