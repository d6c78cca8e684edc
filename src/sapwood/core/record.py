"""Record: one artifact as it is stored. These bytes are the truth; typed artifacts are views of them."""

from __future__ import annotations

import msgspec

from sapwood.core.keys import ArtifactKey


class Record(msgspec.Struct, frozen=True, order=True, gc=False):
    """An artifact's key, kind, bytes and hash.

    `metadata` is the canonical JSON of an object. Its `media` says what `content` is: `text` (UTF-8), `bytes`, or,
    when absent, canonical JSON.
    """

    key: ArtifactKey
    kind: str
    content: bytes
    content_hash: str
    metadata: bytes = b"{}"
