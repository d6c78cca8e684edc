"""Keys: every vector, the laws of parsing and order, and a factory that never steps back."""

from __future__ import annotations

import json
import multiprocessing
import operator
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.clock import KeyFactory
from sapwood.clock import now_ms as look_at_the_clock
from sapwood.core import keys as module
from sapwood.core.keys import MAX_DEPTH, MAX_TIME_MS, ArtifactKey, next_ulid, ulid_number, ulid_text
from sapwood.core.template import TemplateId
from sapwood.errors import ClockOutOfRange, InvalidKey, InvalidTemplateId, KeyTooDeep, WrongArgument
from tests.conftest import Dose
from tests.core import values

CASES = json.loads((Path(__file__).parent.parent / "vectors" / "keys.json").read_text())["cases"]
ROOT = ArtifactKey("ak:01HQXK5V8RPZM4J3NHWGC7SDFG")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['op']} {case['name']}")
def test_every_vector(case: dict[str, Any]) -> None:
    match case["op"]:
        case "key":
            assert is_key(case["text"]) is case["valid"]
            if case["valid"]:
                assert ArtifactKey(case["text"]).depth == case["depth"]
        case "template_id":
            assert is_template_id(case["text"]) is case["valid"]
        case "descends":
            assert ArtifactKey(case["b"]).is_ancestor_of(ArtifactKey(case["a"])) is case["expect"]
        case "ulid_time":
            text = ulid_text(next_ulid(None, case["ms"], bytes(10)))
            assert text[:10] == case["expect"]["time_part"]
            assert ArtifactKey("ak:" + text).time_ms == case["ms"]
        case unknown:
            pytest.fail(f"no test for {unknown}")


def is_key(text: object) -> bool:
    try:
        ArtifactKey(text)  # type: ignore[arg-type]
    except InvalidKey:
        return False
    return True


def is_template_id(text: str) -> bool:
    try:
        TemplateId(text)
    except InvalidTemplateId:
        return False
    return True


@pytest.mark.torture(short=100, full=10_000)
def test_parse_and_print_are_inverse_and_order_is_that_of_the_packed_form(dose: Dose) -> None:
    @values.many(dose.count, dose.seed)
    @given(values.keys, values.keys, values.segments)
    def law(one: ArtifactKey, other: ArtifactKey, segment: str) -> None:
        assert ArtifactKey(str(one)) == one
        assert ArtifactKey.unpack(one.pack()) == one
        assert ulid_text(ulid_number(segment)) == segment
        assert (one < other) == (one.pack() < other.pack()) == (one.segments < other.segments)
        child = one.child(segment)
        assert one < child
        assert child.parent == one
        assert child.root == one.root
        assert one.is_ancestor_of(child)
        assert not child.is_ancestor_of(one)
        assert child.depth == one.depth + 1 == len(child.segments)
        if one.depth == other.depth and one < other:
            assert child < other  # all of a subtree before the next sibling

    law()


@pytest.mark.torture(short=100, full=10_000)
def test_a_text_with_one_changed_character_is_a_key_only_if_the_grammar_says_so(dose: Dose) -> None:
    digits = set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")

    @values.many(dose.count, dose.seed)
    @given(values.keys, st.data())
    def law(key: ArtifactKey, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(key.text) - 1))
        new = data.draw(st.characters() | st.sampled_from("ILOUilou8/: \n\u0663"))
        text = key.text[:at] + new + key.text[at + 1 :]
        place = (at - 3) % 27
        expected = new == key.text[at] or (
            at >= 3 and place < 26 and new in (set("01234567") if place == 0 else digits)
        )
        assert is_key(text) is expected

    law()


@pytest.mark.parametrize("wrong", ["", "ak:", None, 7, b"ak:01HQXK5V8RPZM4J3NHWGC7SDFG", f"{ROOT}\n", f"{ROOT}/"])
def test_what_is_no_key_is_refused_with_the_form_that_was_expected(wrong: object) -> None:
    with pytest.raises(InvalidKey, match="expected ak:<ULID>"):
        ArtifactKey(wrong)  # type: ignore[arg-type]


SEGMENT = ROOT.last_segment
NO_KEYS = {
    "prefix in upper case": f"AK:{SEGMENT}",
    "prefix without colon": f"ak{SEGMENT}",
    "prefix alone twice": f"ak:{SEGMENT}/ak:{SEGMENT}",
    "slash first": f"ak:/{SEGMENT}",
    "slash last": f"ak:{SEGMENT}/",
    "slash twice": f"ak:{SEGMENT}//{SEGMENT}",
    "backslash": f"ak:{SEGMENT}\\{SEGMENT}",
    "25 digits": f"ak:{SEGMENT[:-1]}",
    "27 digits": f"ak:{SEGMENT}0",
    "53 digits": f"ak:{SEGMENT}0{SEGMENT}",
    "second segment from 8": f"ak:{SEGMENT}/8{SEGMENT[1:]}",
    "second segment in lower case": f"ak:{SEGMENT}/{SEGMENT.lower()}",
    "L": f"ak:{SEGMENT[:-1]}L",
    "O": f"ak:{SEGMENT[:-1]}O",
    "U": f"ak:{SEGMENT[:-1]}U",
    "full-width digit": f"ak:{SEGMENT[:-1]}\uff10",
    "combining mark": f"ak:{SEGMENT}\u0301",
    "newline last": f"ak:{SEGMENT}\n",
    "carriage return last": f"ak:{SEGMENT}\r",
    "NUL last": f"ak:{SEGMENT}\0",
    "BOM first": f"\ufeffak:{SEGMENT}",
    "zero width space": f"ak:{SEGMENT[:13]}\u200b{SEGMENT[13:]}",
    "percent": f"ak:{SEGMENT}%2F{SEGMENT}",
    "query": f"ak:{SEGMENT}?x",
    "lone surrogate": f"ak:{SEGMENT[:-1]}\ud800",
}


@pytest.mark.parametrize("name", NO_KEYS)
def test_more_that_is_no_key(name: str) -> None:
    assert not is_key(NO_KEYS[name])


def test_more_that_is_a_key() -> None:
    lowest, highest = "0" * 26, "7" + "Z" * 25
    for text in (f"ak:{lowest}", f"ak:{highest}", f"ak:{highest}/{lowest}", "ak:" + "/".join([highest] * 64)):
        assert is_key(text)
        assert ArtifactKey.unpack(ArtifactKey(text).pack()).text == text
    assert ArtifactKey(f"ak:{highest}").time_ms == MAX_TIME_MS
    assert not ROOT.is_ancestor_of(ROOT)
    assert ROOT.parent is None
    assert next_ulid(0, 0, b"") == 1


TEMPLATE_IDS = {
    "tpl.a.b": True,
    "tpl." + ".".join("abcdefg"): True,
    "tpl." + ".".join("abcdefgh"): False,
    f"tpl.a.{'b' * 64}": True,
    f"tpl.a.{'b' * 65}": False,
    f"tpl.{'.'.join(['b' * 62] * 4)}": True,
    f"tpl.{'.'.join(['b' * 63, 'b' * 63, 'b' * 62, 'b' * 62])}": False,
    "tpl.a.b9": True,
    "tpl.a.9b": False,
    "tpl.a.b.": False,
    "tpl.a..b": False,
    "tpl.a.b\n": False,
    "TPL.a.b": False,
    "tpl.a.é": False,
    "tpl/a/b": False,
    " tpl.a.b": False,
    "": False,
}


@pytest.mark.parametrize("text", TEMPLATE_IDS, ids=lambda text: f"{text[:12]!a} of {len(text)}")
def test_more_template_ids(text: str) -> None:
    assert is_template_id(text) is TEMPLATE_IDS[text]


@pytest.mark.parametrize(
    "wrong", [f"{SEGMENT}/{SEGMENT}", "", f"{SEGMENT}\n", SEGMENT.lower(), f"8{SEGMENT[1:]}", None, 5]
)
def test_a_child_is_one_segment_below_its_parent_and_nothing_else(wrong: object) -> None:
    with pytest.raises((InvalidKey, WrongArgument), match="expected"):
        ROOT.child(wrong)  # type: ignore[arg-type]


class Named(str):
    """Text that shows itself as something else, as the members of an Enum do."""

    __slots__ = ()

    def __str__(self) -> str:
        return "Named"

    __format__ = None  # type: ignore[assignment]  # nothing may ask how it shows itself


def test_a_key_and_a_template_id_given_as_a_kind_of_text_hold_the_plain_text() -> None:
    key = ArtifactKey(Named(ROOT.text))
    assert (type(key.text), str(key), key) == (str, ROOT.text, ROOT)
    assert key.child(Named(SEGMENT)).text == f"{ROOT}/{SEGMENT}"
    family = TemplateId(Named("tpl.agent.discovery"))
    assert (type(family.text), str(family)) == (str, "tpl.agent.discovery")


def test_a_family_is_asked_for_by_text() -> None:
    with pytest.raises(WrongArgument, match="argument prefix is 5"):
        TemplateId("tpl.a.b").is_in_family(5)  # type: ignore[arg-type]


def test_keys_compare_with_keys_alone() -> None:
    child = ROOT.child(SEGMENT)
    others: list[Any] = [ROOT.text, ROOT.pack(), None]
    comparisons = {operator.lt: (True, False), operator.le: (True, True), operator.gt: (False, False)}
    for compare, expected in {**comparisons, operator.ge: (False, True)}.items():
        assert (compare(ROOT, child), compare(ROOT, ArtifactKey(ROOT.text))) == expected
        for other in others:
            with pytest.raises(TypeError):
                compare(ROOT, other)


def test_depth_65_is_refused_with_the_limit() -> None:
    deepest = ArtifactKey("ak:" + "/".join([ROOT.last_segment] * MAX_DEPTH))
    with pytest.raises(KeyTooDeep, match="the limit is 64"):
        ArtifactKey(f"{deepest}/{ROOT.last_segment}")
    for child in (lambda key: key.child(ROOT.last_segment), KeyFactory().child):
        with pytest.raises(KeyTooDeep, match="the limit is 64") as caught:
            child(deepest)
        assert (caught.value.depth, caught.value.limit) == (65, 64)


@pytest.mark.parametrize("wrong", [b"", b"x", bytes(17), bytes(16 * 65), bytearray(16), "0" * 16, [0] * 16, None, 16])
def test_a_packed_key_of_the_wrong_length_or_type_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidKey):
        ArtifactKey.unpack(wrong)


@pytest.mark.parametrize("wrong", [ROOT.text, ROOT.pack(), None, 5])
def test_only_keys_have_children_and_descendants(wrong: Any) -> None:
    with pytest.raises(WrongArgument, match=r"argument other is .*; expected an ArtifactKey"):
        ROOT.is_ancestor_of(wrong)
    with pytest.raises(WrongArgument, match=r"argument parent is .*; expected an ArtifactKey"):
        KeyFactory().child(wrong)
    assert wrong != ROOT


@pytest.mark.torture(short=100, full=10_000)
def test_ulids_strictly_increase_whatever_the_clock_does(dose: Dose) -> None:
    times = st.integers(0, 2**40) | st.sampled_from([0, 1, 5, 5, 5])

    @values.many(dose.count, dose.seed)
    @given(st.lists(st.tuples(times, st.binary(min_size=10, max_size=10) | st.just(b"\xff" * 10)), max_size=30))
    def law(looks: list[tuple[int, bytes]]) -> None:
        last: int | None = None
        latest = 0
        for now_ms, entropy in looks:
            number = next_ulid(last, now_ms, entropy)
            assert last is None or number > last
            latest = max(latest, now_ms)
            assert number >> 80 >= latest
            last = number

    law()


def test_an_overflow_of_the_random_part_goes_to_the_next_millisecond() -> None:
    full = next_ulid(None, 5, b"\xff" * 10)
    assert next_ulid(full, 5, b"") == 6 << 80


def test_a_clock_beyond_what_a_key_carries_is_refused() -> None:
    with pytest.raises(ClockOutOfRange):
        next_ulid(None, MAX_TIME_MS + 1, bytes(10))
    with pytest.raises(ClockOutOfRange):
        next_ulid(2**128 - 1, 0, bytes(10))


def test_a_time_before_1970_is_refused_for_a_first_key_and_a_step_back_for_a_later_one() -> None:
    with pytest.raises(ClockOutOfRange):
        next_ulid(None, -1, bytes(10))
    with pytest.raises(ClockOutOfRange):
        KeyFactory().root_at(-1)
    factory = KeyFactory(clock=iter([5, -1]).__next__)
    assert [factory.root().time_ms, factory.root().time_ms] == [5, 5]


@pytest.mark.parametrize("wrong", ["5", None, 5.0, float("nan"), True, 2**48])
def test_a_clock_that_shows_no_time_of_a_key_is_refused_at_every_look(wrong: Any) -> None:
    factory = KeyFactory(clock=iter([wrong, 5, wrong, 6]).__next__)
    for expected_ms in (5, 6):
        with pytest.raises(ClockOutOfRange):
            factory.root()
        assert factory.root().time_ms == expected_ms


@pytest.mark.parametrize("wrong", ["x", 1.0, True, -1, 2**128])
def test_a_last_ulid_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(WrongArgument, match=r"argument last is .*; expected a ULID"):
        next_ulid(wrong, 1, bytes(10))


@pytest.mark.parametrize("wrong", [b"", bytes(9), bytes(11), bytearray(10), "x" * 10, [0] * 10, None, 0])
def test_entropy_that_is_not_ten_bytes_is_refused_and_no_key_is_made(wrong: Any) -> None:
    factory = KeyFactory(clock=lambda: 5, entropy=lambda _: wrong)
    for mint in (factory.root, lambda: factory.root_at(5), lambda: next_ulid(None, 5, wrong)):
        with pytest.raises(WrongArgument, match=r"argument entropy is .*; expected 10 bytes"):
            mint()


def test_a_factory_is_made_of_two_functions() -> None:
    with pytest.raises(WrongArgument, match="argument clock is 5; expected a function"):
        KeyFactory(clock=5)  # type: ignore[arg-type]
    with pytest.raises(WrongArgument, match="argument entropy is b'x'; expected a function"):
        KeyFactory(entropy=b"x")  # type: ignore[arg-type]


class JumpingClock:
    """Stands still, jumps back and forward by hours."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        self._now_ms += self._rng.choice([0, 0, 0, 0, 1, -1, 1000, -1000, 3_600_000, -3_600_000])
        return self._now_ms


@pytest.mark.torture(short=4_000, full=400_000)
@pytest.mark.parametrize("clock", ["real", "jumping"])
def test_keys_of_eight_threads_strictly_increase(clock: str, dose: Dose) -> None:
    factory = KeyFactory() if clock == "real" else KeyFactory(clock=JumpingClock(dose.seed))
    parent = factory.root()
    made: list[list[ArtifactKey]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def mint(mine: list[ArtifactKey]) -> None:
        start.wait()
        mine.extend(factory.child(parent) for _ in range(dose.count // 8))

    threads = [threading.Thread(target=mint, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for mine in made:
        assert mine == sorted(set(mine))
    together = [key for mine in made for key in mine]
    assert len(set(together)) == len(together) == dose.count // 8 * 8
    assert all(parent < key for key in together)
    assert factory.child(parent) > max(together)


def test_the_factories_of_a_process_are_one_series() -> None:
    one, other = KeyFactory(), KeyFactory()
    numbers = [factory.number() for _ in range(1_000) for factory in (one, other, KeyFactory())]
    assert numbers == sorted(set(numbers))


def test_the_real_clock_shows_the_time() -> None:
    before_ms = time.time() * 1000
    assert type(look_at_the_clock()) is int
    assert before_ms - 1 <= look_at_the_clock() <= time.time() * 1000 + 1


def test_a_factory_with_entropy_of_its_own_uses_it_once_a_millisecond() -> None:
    asked: list[int] = []

    def entropy(count: int) -> bytes:
        asked.append(count)
        return b"\x07" * count

    assert KeyFactory(entropy=entropy).root().pack()[6:] == b"\x07" * 10
    factory = KeyFactory(clock=iter([5, 5, 4, 6]).__next__, entropy=entropy)
    made = [factory.root().pack() for _ in range(4)]
    assert [key[-1] for key in made] == [7, 8, 9, 7]
    assert asked == [10] * 3


def test_a_factory_with_a_clock_of_its_own_keeps_to_it() -> None:
    KeyFactory(clock=lambda: MAX_TIME_MS).root()
    assert KeyFactory(clock=lambda: 5).root().time_ms == 5
    assert KeyFactory().root().time_ms < MAX_TIME_MS


def test_a_fork_never_mints_its_parents_keys() -> None:
    parent_id = os.getpid()

    def high_then_low(count: int) -> bytes:
        return (b"\xfe" if os.getpid() == parent_id else b"\0") * count

    factory = KeyFactory(clock=lambda: 1_700_000_000_000, entropy=high_then_low)
    before = factory.root()
    here, there = multiprocessing.get_context("fork").Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        there.send([factory.root().text for _ in range(100)])
        os._exit(0)
    own = [factory.root().text for _ in range(100)]
    theirs = here.recv()
    os.waitpid(pid, 0)
    assert not set(own) & set(theirs)
    assert theirs == sorted(theirs)
    assert before.text < theirs[0], "to the child too, its keys strictly increase"


def test_a_key_never_changes() -> None:
    with pytest.raises(AttributeError):
        ROOT.text = "x"  # type: ignore[misc]  # what the test is about
    with pytest.raises(AttributeError):
        del ROOT.text


@pytest.mark.mutant
def test_a_step_that_trusts_the_clock_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    trusting = KeyFactory(clock=iter([10, 5]).__next__, entropy=lambda count: bytes(count))
    monkeypatch.setattr(
        "sapwood.clock.next_ulid", lambda last, now_ms, entropy: module.next_ulid(None, now_ms, bytes(10))
    )
    assert trusting.number() > trusting.number()
