"""The seal of a run: a Merkle head over its artifacts in key order, in the way of RFC 9162.

A leaf is the canonical JSON of an artifact's key, kind, parent, content hash and metadata hash; leaves are hashed with
the prefix 0x00, inner nodes with 0x01. The Seal itself is no leaf. The head takes constant memory; a proof that one
artifact is in the tree takes the hashes of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple, Protocol

from sapwood.core.artifacts import Seal
from sapwood.core.canonical import canonical_json
from sapwood.core.expect import expect, expect_each
from sapwood.core.findings import Finding
from sapwood.core.keys import ArtifactKey
from sapwood.errors import InvalidArtifact, WrongArgument

EMPTY_HEAD = sha256(b"").digest()
_HASH_BYTES = 32
_BATCH = 1024  # a power of two
_NO_METADATA_HASH = sha256(b"{}").hexdigest()


class Sealable(Protocol):
    """What a leaf is made of: a record, or its outline without the content."""

    @property
    def key(self) -> ArtifactKey: ...
    @property
    def kind(self) -> str: ...
    @property
    def content_hash(self) -> str: ...
    @property
    def metadata(self) -> bytes: ...


class MerkleHead:
    """Takes leaves one by one and knows the head of those it has taken, with constant memory.

    Leaves are put together by the thousand: a level of a perfect subtree at once costs half as much as node by node.
    """

    def __init__(self) -> None:
        self._leaves: list[bytes] = []
        self._subtrees: list[tuple[int, bytes]] = []  # perfect ones, as their height above _BATCH leaves and their head

    def add(self, leaf_hash: bytes) -> None:
        self._leaves.append(leaf_hash)
        if len(self._leaves) == _BATCH:
            self._put(_perfect_head(self._leaves))
            self._leaves = []

    def head(self) -> bytes:
        nodes = [node for _, node in self._subtrees]
        rest = self._leaves
        while rest:
            size = 1 << (len(rest).bit_length() - 1)
            nodes.append(_perfect_head(rest[:size]))
            rest = rest[size:]
        if not nodes:
            return EMPTY_HEAD
        node = nodes.pop()
        while nodes:
            node = node_hash(nodes.pop(), node)
        return node

    def _put(self, node: bytes) -> None:
        height = 0
        while self._subtrees and self._subtrees[-1][0] == height:  # two subtrees of equal size become one
            node = node_hash(self._subtrees.pop()[1], node)
            height += 1
        self._subtrees.append((height, node))


def _perfect_head(leaves: list[bytes]) -> bytes:
    """Return the head over leaves whose number is a power of two."""
    level = leaves
    while len(level) > 1:
        level = [sha256(b"\x01" + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=True)]
    return level[0]


def hash_leaf(artifact: Sealable) -> bytes:
    """Return the hash of an artifact's leaf."""
    return sha256(b"\x00" + leaf_bytes(artifact)).digest()


def leaf_bytes(artifact: Sealable) -> bytes:
    """Return an artifact's leaf: canonical JSON of what identifies it and its bytes."""
    key, metadata = artifact.key.text, artifact.metadata
    metadata_hash = _NO_METADATA_HASH if metadata == b"{}" else sha256(metadata).hexdigest()
    parent = f'"{key[:-27]}"' if len(key) > 29 else "null"
    # Written by hand, because a run has as many leaves as artifacts; only a kind can hold what JSON escapes.
    return (
        f'{{"content_hash":"{artifact.content_hash}","key":"{key}","kind":{_kind_json(artifact.kind)},'
        f'"metadata_hash":"{metadata_hash}","parent":{parent}}}'
    ).encode()


@lru_cache(256)
def _kind_json(kind: str) -> str:
    return canonical_json(kind).decode()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


class Summary(NamedTuple):
    """What a Seal says of a run, and the Seals found in it."""

    head: str
    counts: dict[str, int]
    seals: tuple[ArtifactKey, ...]


def summarise(artifacts: Iterable[Sealable]) -> Summary:
    """Return the head and the counts of a run's artifacts, which come in key order."""
    merkle, counts, seals, last = MerkleHead(), Counter[str](), [], ""
    for artifact in artifacts:
        text = artifact.key.text
        if text <= last:
            raise InvalidArtifact(text, f"comes after {last}; a head is taken in key order")
        last = text
        if is_seal(artifact):
            seals.append(artifact.key)
            continue
        merkle.add(hash_leaf(artifact))
        counts[artifact.kind] += 1
    return Summary(merkle.head().hex(), dict(sorted(counts.items())), tuple(seals))


def is_seal(artifact: Sealable) -> bool:
    """Tell whether this is the run's Seal: the kind alone is not enough, or anything could hide behind it."""
    return artifact.kind == "Seal" and artifact.key.depth == 2


def check_seal(seal: Seal | None, run: ArtifactKey, summary: Summary) -> list[Finding]:
    """Return where a run's Seal and its artifacts disagree."""
    if seal is None or not summary.seals:
        return [Finding("no_seal", run, "the run has no Seal; it is not ended, or the Seal was taken away")]
    found = []
    if len(summary.seals) > 1:
        found.append(Finding("two_seals", summary.seals[1], f"{len(summary.seals)} Seals in one run"))
    if seal.head != summary.head:
        found.append(
            Finding("head_mismatch", seal.key, f"the artifacts give {summary.head}, the Seal says {seal.head}")
        )
    if seal.counts != summary.counts:
        found.append(Finding("counts_mismatch", seal.key, f"counted {summary.counts}, the Seal says {seal.counts}"))
    return found


def prove_inclusion(leaf_hashes: Sequence[bytes], index: int) -> list[bytes]:
    """Return the proof that the leaf at `index` is in the tree: the hashes beside its way up, lowest first."""
    leaf_hashes = expect_each(leaf_hashes, bytes, "leaf_hashes", "hashes")
    _expect_integer(index, "index", "a place from 0 up")
    if not 0 <= index < len(leaf_hashes):
        raise InvalidArtifact("inclusion proof", f"leaf {index} of {len(leaf_hashes)}")
    proof: list[bytes] = []
    low, high = 0, len(leaf_hashes)
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            proof.append(head_of(leaf_hashes[middle:high]))
            high = middle
        else:
            proof.append(head_of(leaf_hashes[low:middle]))
            low = middle
    return proof[::-1]


def is_included(leaf_hash: bytes, index: int, size: int, proof: Sequence[bytes], head: bytes) -> bool:
    """Tell whether `proof` shows that this leaf is number `index` of the `size` leaves below `head`."""
    expect(leaf_hash, bytes, "leaf_hash", "a hash")
    _expect_integer(index, "index", "a place from 0 up")
    _expect_integer(size, "size", "a number of leaves")
    expect(head, bytes, "head", "a hash")
    proof = expect_each(proof, bytes, "proof", "hashes")
    if not 0 <= index < size or {len(one) for one in (leaf_hash, *proof)} != {_HASH_BYTES}:
        return False  # bytes moved from one hash into its neighbour would give the same head
    place, last, node = index, size - 1, leaf_hash
    for beside in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            node = node_hash(beside, node)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            node = node_hash(node, beside)
        place, last = place >> 1, last >> 1
    return last == 0 and node == head


def head_of(leaf_hashes: Iterable[bytes]) -> bytes:
    """Return the head over these leaves."""
    merkle = MerkleHead()
    for leaf in leaf_hashes:
        merkle.add(leaf)
    return merkle.head()


def _expect_integer(value: object, name: str, expected: str) -> None:
    if type(value) is not int:  # True is none
        raise WrongArgument(name, value, expected)


def _split(size: int) -> int:
    """Return the largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1
