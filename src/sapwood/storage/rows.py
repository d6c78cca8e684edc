"""Record <-> row: packed keys, ranges of keys, and large contents as shared chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from typing import Any, Final
from zlib import crc32

from sapwood.core.keys import MAX_DEPTH, SEGMENT_BYTES
from sapwood.core.record import Record
from sapwood.ports import Claim

INLINE_BYTES: Final = 32 * 1024
CHUNK_BYTES: Final = 16 * 1024
ZSTD_LEVEL: Final = 3
ZSTD_HEAD_BYTES: Final = 18  # the longest header of a frame
ALWAYS_INLINE: Final = frozenset({"Report", "Note", "Log"})  # so that the view phase_artifacts shows them whole
HASH_BYTES: Final = 32
LAST_KEY: Final = b"\xff" * (SEGMENT_BYTES * MAX_DEPTH + 1)

Row = tuple[bytes, str, bytes, bytes, bytes | None, bytes | None, int]
"""key, kind, hash, metadata, content, chunks, crc: the columns of `artifact`."""


def end_of_subtree(packed: bytes) -> bytes:
    """Return the smallest bytes that sort after `packed` and every key below it."""
    number = int.from_bytes(packed, "big") + 1
    return LAST_KEY if number >> (8 * len(packed)) else number.to_bytes(len(packed), "big")


def to_row(record: Record) -> Row:
    """Return the row of a record whose content is stored inline."""
    key, kind, digest, metadata = record.key.pack(), record.kind, bytes.fromhex(record.content_hash), record.metadata
    return key, kind, digest, metadata, record.content, None, row_crc(key, kind, digest, metadata)


def row_crc(key: bytes, kind: str, digest: bytes, metadata: bytes, chunks: bytes = b"") -> int:
    """Return the CRC-32 over what the content hash does not cover: decay shows in runs without a Seal too."""
    return crc32(b"".join((key, kind.encode(), digest, metadata, chunks)))


def claim_crc(claim: Claim) -> int:
    """Return the CRC-32 over a row of `claim`, which has no content hash."""
    words = (claim.node, str(claim.attempt), str(claim.delivery), claim.role)
    return crc32(b"".join((claim.run.pack(), "\n".join(words).encode(), claim.key.pack())))


def run_crc(*columns: object) -> int:
    """Return the CRC-32 over a row of `run`: all its columns in their order, but the last."""
    words = (column.hex() if isinstance(column, bytes) else "" if column is None else str(column) for column in columns)
    return crc32("\n".join(words).encode())


def is_chunked(record: Record) -> bool:
    return len(record.content) >= INLINE_BYTES and record.kind not in ALWAYS_INLINE


def split(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (hash, bytes) of each chunk of `content`, cut where its bytes say so: equal parts give equal chunks."""
    for chunk in _cutter().cut_buf(content):
        part = bytes(chunk.data)
        yield sha256(part).digest(), part


def compress(data: bytes) -> bytes:
    return bytes(_zstd().compress(data, ZSTD_LEVEL))


def join(parts: Iterable[bytes]) -> bytes:
    """Return the content whose compressed chunks these are."""
    decompress = _zstd().decompress
    return b"".join(decompress(part) for part in parts)


def uncompressed_bytes(head: bytes) -> int:
    """Return the size of a chunk from the beginning of its compressed form."""
    return int(_zstd().get_frame_info(head).decompressed_size)


def chunk_hashes(chunks: bytes) -> Iterator[bytes]:
    return (chunks[at : at + HASH_BYTES] for at in range(0, len(chunks), HASH_BYTES))


@cache
def _cutter() -> Any:
    from pyfastcdc import FastCDC  # imported when the first large content comes

    return FastCDC(avg_size=CHUNK_BYTES, min_size=CHUNK_BYTES // 4, max_size=CHUNK_BYTES * 4)


@cache
def _zstd() -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]  # Python 3.14 has it
    except ImportError:
        from backports import zstd
    return zstd
