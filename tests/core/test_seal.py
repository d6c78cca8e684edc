"""The Merkle head, its proofs, and what a Seal sees."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace

from sapwood.core import seal
from sapwood.core.codec import from_record
from sapwood.core.record import Record
from sapwood.core.seal import (
    check_seal,
    hash_leaf,
    head_of,
    is_included,
    leaf_bytes,
    prove_inclusion,
    summarise,
)
from sapwood.errors import InvalidArtifact, WrongArgument
from tests.conftest import Dose
from tests.core.trees import SmallRun

LEAVES = [sha256(b"\x00" + bytes([number])).digest() for number in range(256)]


def reference_head(leaves: list[bytes]) -> bytes:
    """The definition of RFC 9162, word for word."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return sha256(b"\x01" + reference_head(leaves[:split]) + reference_head(leaves[split:])).digest()


def reference_proof(leaves: list[bytes], index: int) -> list[bytes]:
    """The definition of RFC 9162, word for word."""
    if len(leaves) == 1:
        return []
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    if index < split:
        return [*reference_proof(leaves[:split], index), reference_head(leaves[split:])]
    return [*reference_proof(leaves[split:], index - split), reference_head(leaves[:split])]


def test_the_head_is_the_reference_for_every_tree_up_to_256_leaves() -> None:
    for size in range(257):
        assert head_of(LEAVES[:size]) == reference_head(LEAVES[:size]), size


def test_the_head_is_the_reference_around_every_thousand_that_is_put_together() -> None:
    many = [sha256(number.to_bytes(4, "big")).digest() for number in range(8 * 1024 + 1)]
    for size in (
        1023,
        1024,
        1025,
        2047,
        2048,
        2049,
        3 * 1024,
        4095,
        4096,
        4097,
        5 * 1024 + 3,
        7 * 1024 + 513,
        len(many),
    ):
        assert head_of(many[:size]) == reference_head(many[:size]), size
    merkle = seal.MerkleHead()
    for size, leaf in enumerate(many[:2050], 1):
        merkle.add(leaf)
        if size in (1, 1023, 1024, 1025, 2048, 2050):  # asked for in between, and it goes on
            assert merkle.head() == reference_head(many[:size]), size
    for index in (0, 1023, 1024, 2048, 4999):
        proof = prove_inclusion(many[:5000], index)
        assert proof == reference_proof(many[:5000], index)
        assert is_included(many[index], index, 5000, proof, reference_head(many[:5000]))


@pytest.mark.torture(short=30, full=256)
def test_every_leaf_of_every_tree_up_to_256_leaves_has_a_proof_and_nothing_else_has_it(dose: Dose) -> None:
    around_powers = [63, 64, 65, 127, 128, 129, 255, 256]
    for size in [*range(1, dose.count + 1), *(size for size in around_powers if size > dose.count)]:
        head = reference_head(LEAVES[:size])
        for index in range(size):
            proof = prove_inclusion(LEAVES[:size], index)
            assert proof == reference_proof(LEAVES[:size], index)
            assert is_included(LEAVES[index], index, size, proof, head)
            assert not is_included(LEAVES[(index + 1) % 256], index, size, proof, head)
            assert not is_included(LEAVES[index], index + 1, size, proof, head)
            assert not is_included(LEAVES[index], index, size, [*proof, head], head)
            assert not proof or not is_included(LEAVES[index], index, size, proof[:-1], head)


def test_bytes_moved_between_the_hashes_of_a_proof_are_no_proof() -> None:
    leaf, *others = LEAVES[:2]
    head, beside = reference_head([leaf, *others]), others[0]
    assert is_included(leaf, 0, 2, [beside], head)
    for cut in (1, 31):
        assert not is_included(leaf + beside[:cut], 0, 2, [beside[cut:]], head)
        assert not is_included(leaf[:cut], 0, 2, [leaf[cut:] + beside], head)


def test_a_proof_has_as_many_hashes_as_its_place_and_size_ask_for() -> None:
    head = reference_head(LEAVES[:2])
    assert is_included(LEAVES[1], 1, 2, [LEAVES[0]], head)
    assert not is_included(LEAVES[1], 0, 1, [LEAVES[0]], head), "in a tree of one leaf nothing stands beside it"
    for size in range(2, 9):
        head = reference_head(LEAVES[:size])
        assert not any(is_included(head, index, size, [], head) for index in range(size)), "a head is no leaf"
        proof = prove_inclusion(LEAVES[:size], size - 1)
        assert not is_included(LEAVES[size - 1], 0, 1, proof, head)


def test_a_proof_of_no_leaf_is_refused() -> None:
    with pytest.raises(InvalidArtifact):
        prove_inclusion(LEAVES[:3], 3)
    assert not is_included(LEAVES[0], 0, 0, [], reference_head([]))


@pytest.mark.parametrize("wrong", [True, 0.0, "0", None, b"0"])
def test_places_and_sizes_are_integers(wrong: Any) -> None:
    with pytest.raises(WrongArgument, match=r"argument index is .*; expected a place from 0 up"):
        prove_inclusion(LEAVES[:3], wrong)
    with pytest.raises(WrongArgument, match=r"argument index is .*; expected a place from 0 up"):
        is_included(LEAVES[0], wrong, 1, [], LEAVES[0])
    with pytest.raises(WrongArgument, match=r"argument size is .*; expected a number of leaves"):
        is_included(LEAVES[0], 0, wrong, [], LEAVES[0])
    assert is_included(LEAVES[0], 0, 1, [], LEAVES[0])


@pytest.mark.parametrize("wrong", [None, 5, "x" * 32, bytearray(32), [b"x"]])
def test_hashes_are_bytes(wrong: Any) -> None:
    for ask in (
        lambda: prove_inclusion([wrong], 0),
        lambda: prove_inclusion(wrong if isinstance(wrong, str) else 5, 0),  # type: ignore[arg-type]
        lambda: is_included(wrong, 0, 1, [], LEAVES[0]),
        lambda: is_included(LEAVES[0], 0, 1, [], wrong),
        lambda: is_included(LEAVES[0], 0, 2, [wrong], LEAVES[0]),
    ):
        with pytest.raises(WrongArgument, match=r"expected (?:a hash|hashes)$"):
            ask()


def test_a_leaf_names_key_kind_parent_and_both_hashes() -> None:
    run = SmallRun()
    record = run.records[1]
    assert (
        leaf_bytes(record)
        == (
            f'{{"content_hash":"{record.content_hash}","key":"{record.key}","kind":"{record.kind}",'
            f'"metadata_hash":"{sha256(record.metadata).hexdigest()}","parent":"{record.key.parent}"}}'
        ).encode()
    )
    assert leaf_bytes(run.records[0]).endswith(b'"parent":null}')


def test_the_seal_of_an_unchanged_run_holds() -> None:
    run = SmallRun()
    assert check_seal(run.seal, run.root, summarise(run.records)) == []


def codes(run: SmallRun, records: list[Record]) -> list[str]:
    sealed = next((from_record(record) for record in records if record.kind == "Seal"), None)
    return [finding.code for finding in check_seal(sealed, run.root, summarise(records))]  # type: ignore[arg-type]


def test_every_change_of_any_record_is_seen() -> None:
    run = SmallRun()
    for index, record in enumerate(run.unsealed):
        changed = [
            replace(record, content_hash="0" * 64),
            replace(record, kind=record.kind + "X"),
            replace(record, metadata=b'{"x":1}'),
        ]
        for other in changed:
            assert "head_mismatch" in codes(run, [*run.records[:index], other, *run.records[index + 1 :]])
        assert codes(run, run.records[:index] + run.records[index + 1 :]) == ["head_mismatch", "counts_mismatch"]


def test_a_missing_and_a_second_seal_are_seen() -> None:
    run = SmallRun()
    assert codes(run, run.unsealed) == ["no_seal"]
    second = replace(run.records[-1], key=run.keys.child(run.root))
    assert "two_seals" in codes(run, [*run.records, second])


def test_a_seal_counts_only_where_the_run_has_it_and_it_can_be_read() -> None:
    run = SmallRun()
    whole, without_seal = summarise(run.records), summarise(run.unsealed)
    assert whole.head == without_seal.head
    assert whole.counts == without_seal.counts
    for sealed, summary in ((run.seal, without_seal), (None, whole), (None, without_seal)):
        assert [finding.code for finding in check_seal(sealed, run.root, summary)] == ["no_seal"]


def test_nothing_hides_behind_the_name_of_the_seal() -> None:
    run = SmallRun()
    hidden = replace(run.records[-1], key=run.keys.child(run.helper))
    assert "head_mismatch" in codes(run, sorted([*run.records, hidden]))


def test_records_out_of_order_are_refused() -> None:
    run = SmallRun()
    with pytest.raises(InvalidArtifact):
        summarise(run.records[::-1])
    with pytest.raises(InvalidArtifact, match="comes after"):
        summarise([run.records[0], *run.records])


@pytest.mark.mutant
def test_leaves_without_metadata_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "leaf_bytes", lambda record: record.content_hash.encode())
    with pytest.raises(AssertionError):
        test_every_change_of_any_record_is_seen()


@pytest.mark.mutant
def test_a_head_without_prefixes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "node_hash", lambda left, right: sha256(left + right).digest())
    with pytest.raises(AssertionError):
        test_the_head_is_the_reference_for_every_tree_up_to_256_leaves()


def test_hash_leaf_has_the_leaf_prefix() -> None:
    record = SmallRun().records[0]
    assert hash_leaf(record) == sha256(b"\x00" + leaf_bytes(record)).digest()
