"""Canonical JSON: every vector, one value one text, the reference for doubles, and refusals that name the place."""

from __future__ import annotations

import json
import math
import random
import struct
import sys
from collections import Counter, OrderedDict, defaultdict
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core import canonical as module
from sapwood.core.canonical import canonical_json, read_json
from sapwood.core.hashing import hash_bytes, hash_json, hash_text, utf8
from sapwood.errors import InvalidText, NotCanonical
from tests.conftest import Dose
from tests.core import values

CASES = json.loads((Path(__file__).parent.parent / "vectors" / "canonical_json.json").read_text())["cases"]


def refuse(constant: str) -> float:
    raise ValueError(constant)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_every_vector(case: dict[str, Any]) -> None:
    expected = case["expect"]
    if expected.get("must_reject"):
        with pytest.raises((ValueError, NotCanonical)):
            canonical_json(json.loads(case["input_text"], parse_constant=refuse))
        with pytest.raises(NotCanonical):
            canonical_json(read_json(case["input_text"].encode()))
        return
    value = json.loads(case["input_text"], parse_constant=refuse)
    assert canonical_json(read_json(case["input_text"].encode())).decode() == expected["canonical"]
    assert canonical_json(value).decode() == expected["canonical"]
    assert hash_json(value) == expected["sha256"]


BY_THE_RULE = {
    # numbers: integers exact, doubles by their shortest digits
    "-0": "0",
    "-0.0": "0",
    "-0e5": "0",
    "2e0": "2",
    "100.0e-2": "1",
    "-1.0": "-1",
    "1E+2": "100",
    "0.1e-5": "0.000001",
    "1e-05": "0.00001",
    "0.000001": "0.000001",
    "9.99999999999999e-7": "9.99999999999999e-7",
    "1e-7": "1e-7",
    "-1.5e-10": "-1.5e-10",
    "123e-20": "1.23e-18",
    "4.9e-324": "5e-324",
    "1e-400": "0",
    "9007199254740991.0": "9007199254740991",
    "9007199254740993": "9007199254740993",
    "9007199254740993.0": "9007199254740992",
    "-9007199254740994.0": "-9007199254740994",
    "18446744073709551616": "18446744073709551616",
    "-9223372036854775809": "-9223372036854775809",
    "1e16": "10000000000000000",
    "1.2345678901234567e16": "12345678901234568",
    "123456789012345680000.0": "123456789012345680000",
    "9.999999999999999e20": "999999999999999900000",
    "999999999999999999999.0": "1e21",
    "1000000000000000000000": "1000000000000000000000",
    "1e21": "1e21",
    "-1.5e22": "-1.5e22",
    "1e300": "1e300",
    "0.30000000000000004": "0.30000000000000004",
    "5e-1": "0.5",
    # strings: the short escapes, lower case, and nothing else escaped
    r'"\u0008\u0009\u000A\u000c\u000D"': r'"\b\t\n\f\r"',
    r'"\u000B\u001F\u0000"': r'"\u000b\u001f\u0000"',
    r'"\u0022\u005C\u002f\/"': r'"\"\\//"',
    r'"\u007f\u0080\u00A0"': '"\x7f\x80\xa0"',
    r'"\u2028\u2029\ufeff\uFFFF"': '"\u2028\u2029\ufeff\uffff"',
    r'"\ud83d\uDE00"': '"\U0001f600"',
    r'"e\u0301 \u00e9"': '"e\u0301 \xe9"',
    # structure: code point order, the last of two equal names, null kept
    '{"\U00010000":1,"\ue000":2,"\ud7ff":3}': '{"\ud7ff":3,"\ue000":2,"\U00010000":1}',
    '{"b":1,"a":2,"B":3,"aa":4,"":5,"10":6,"2":7}': '{"":5,"10":6,"2":7,"B":3,"a":2,"aa":4,"b":1}',
    r'{"\n":1,"\u0000":2," ":3,"!":4}': r'{"\u0000":2,"\n":1," ":3,"!":4}',
    '{"a":1,"a":null}': '{"a":null}',
    ' [ 1 , { } , [ ] , "" , true ] ': '[1,{},[],"",true]',
}


@pytest.mark.parametrize("text", BY_THE_RULE, ids=lambda text: ascii(text)[1:-1])
def test_more_cases_by_the_rule(text: str) -> None:
    assert canonical_json(json.loads(text)).decode() == BY_THE_RULE[text]


class Word(str):
    __slots__ = ()


class Number(IntEnum):
    ONE = 1


class Ratio(float):
    __slots__ = ()


class Pair(NamedTuple):
    one: object
    other: object


class Rows(list[object]):
    pass


class Sly(str):
    """Two of these can be names of one dict and still have one text."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


@pytest.mark.parametrize(
    "value",
    [Decimal(1), bytearray(), range(2), {1: 1}, {Number.ONE: 1}, MappingProxyType({}), ...],
    ids=lambda value: type(value).__name__,
)
def test_what_only_looks_like_json_is_refused(value: object) -> None:
    with pytest.raises(NotCanonical):
        canonical_json([value])


def test_a_value_that_carries_more_is_its_value() -> None:
    for value, plain in [
        ({"a": Word("x"), "b": [Word("é"), Word("")]}, {"a": "x", "b": ["é", ""]}),
        (Word("x"), "x"),
        ({Word("x"): 1, "a": 2}, {"x": 1, "a": 2}),
        ([Number.ONE, Ratio(1.5), Ratio(2)], [1, 1.5, 2]),
        (OrderedDict(b=1, a=Number.ONE), {"a": 1, "b": 1}),
        ({"hits": Counter("aab")}, {"hits": {"a": 2, "b": 1}}),
        (defaultdict(Rows, a=Rows([Pair(Ratio(1), None)])), {"a": [[1, None]]}),
    ]:
        assert canonical_json(value) == canonical_json(plain), value


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        ({"a": Word("\ud800")}, "$.a", "surrogate"),
        ({"a": OrderedDict({"b": Rows([Ratio("nan")])})}, "$.a.b[0]", "not a JSON number"),
        ([Counter({1: 1})], "$[0]", "keys are strings"),
        ({"a": {Sly("x"): 1, Sly("x"): 2}}, "$.a", "the key 'x' twice"),
    ],
    ids=["text", "number", "key", "twice"],
)
def test_a_culprit_in_a_value_that_carries_more_has_its_path(value: object, path: str, why: str) -> None:
    with pytest.raises(NotCanonical, match=why) as caught:
        canonical_json(value)
    assert caught.value.path == path


def test_levels_are_counted_through_values_that_carry_more() -> None:
    circle = Rows()
    circle.append(OrderedDict(again=circle))
    with pytest.raises(NotCanonical, match="128"):
        canonical_json(circle)


@pytest.mark.torture(short=100, full=10_000)
def test_it_is_a_function_of_the_value(dose: Dose) -> None:
    @values.many(dose.count, dose.seed)
    @given(values.json_values | st.lists(values.doubles), st.randoms())
    def law(value: object, rng: random.Random) -> None:
        text = canonical_json(value)
        assert canonical_json(shuffled(value, rng)) == text
        assert canonical_json(json.loads(text)) == text
        assert canonical_json(msgspec.json.decode(text)) == text
        assert same(json.loads(text), value)

    law()


def shuffled(value: Any, rng: random.Random) -> Any:
    """Return an equal value whose dicts were filled in another order and whose lists are tuples."""
    if isinstance(value, dict):
        items = list(value.items())
        rng.shuffle(items)
        return {name: shuffled(item, rng) for name, item in items}
    return tuple(shuffled(item, rng) for item in value) if isinstance(value, list) else value


def same(one: Any, other: Any) -> bool:
    if isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in other)
    if isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(other, float):
        return float(one) == other  # the shortest digits of a large double are not its exact integer
    return bool(one == other) and (type(one) is bool) == (type(other) is bool)


@pytest.mark.torture(short=300, full=100_000)
def test_doubles_print_as_the_reference_prints_them(dose: Dose) -> None:
    for _ in range(dose.count):
        value = struct.unpack("<d", dose.rng.randbytes(8))[0]
        if not math.isfinite(value):
            continue
        ours, reference = canonical_json(value), rfc8785.dumps(value)
        if ours != reference.replace(b"e+", b"e"):  # the one rule that differs: no plus sign
            dose.failures.append(repr(value))
        if float(ours) != value:
            dose.failures.append(f"{value!r} does not read back")


@pytest.mark.torture(short=100, full=10_000)
def test_values_print_as_the_reference_prints_them_where_the_rules_agree(dose: Dose) -> None:
    plain = st.characters(max_codepoint=0xD7FF)  # above, the reference sorts by UTF-16
    leaves = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e20, 1e20) | st.text(plain)
    agreed = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(plain), inner), max_leaves=10)

    @values.many(dose.count, dose.seed)
    @given(agreed)
    def law(value: Any) -> None:
        assert canonical_json(value) == rfc8785.dumps(value)

    law()


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


CULPRITS = [
    (float("nan"), "JSON number"),
    (float("inf"), "JSON number"),
    (float("-inf"), "JSON number"),
    ("\ud800", "surrogate"),
    ({"\udc00": 1}, "surrogate"),
    ({1: 2}, "keys are strings"),
    ({None: 2}, "keys are strings"),
    (b"x", "not a JSON type"),
    ({1, 2}, "not a JSON type"),
    (object(), "not a JSON type"),
]


@pytest.mark.parametrize(
    ("culprit", "why"), CULPRITS, ids=[f"{type(value).__name__} {n}" for n, (value, _) in enumerate(CULPRITS)]
)
def test_what_has_no_form_is_refused_with_its_path(culprit: object, why: str) -> None:
    with pytest.raises(NotCanonical) as caught:
        canonical_json({"fine": [1, "é"], "list": [0, {"odd name": culprit}]})
    assert caught.value.path.startswith("$.list[1]['odd name']")
    assert why in caught.value.why


def test_a_long_path_does_not_hide_the_reason() -> None:
    value: Any = float("nan")
    for number in range(100):
        value = {f"a_rather_long_name_{number}": value}
    with pytest.raises(NotCanonical, match=r"\$\.a_rather_long_name_99.*….*name_0: nan is not a JSON number") as caught:
        canonical_json(value)
    assert len(str(caught.value)) < 500
    assert caught.value.path.count(".") == 100


@pytest.mark.torture(short=100, full=10_000)
def test_a_culprit_anywhere_is_refused_with_its_path(dose: Dose) -> None:
    @values.many(dose.count, dose.seed)
    @given(st.lists(st.integers(0, 3) | st.sampled_from(["a", "b c", "é"]), max_size=20), st.sampled_from(CULPRITS))
    def law(path: list[int | str], culprit: tuple[object, str]) -> None:
        value, expected = culprit[0], ""
        for step in reversed(path):
            if isinstance(step, int):
                value = [*range(step), value]
                expected = f"[{step}]{expected}"
            else:
                value = {"0": None, step: value}
                expected = (f".{step}" if step.isidentifier() else f"[{step!a}]") + expected
        with pytest.raises(NotCanonical) as caught:
            canonical_json(value)
        assert caught.value.path.startswith("$" + expected)

    law()


def test_128_levels_are_fine_and_129_are_not() -> None:
    assert canonical_json(nested(128)) == b"[" * 128 + b"1" + b"]" * 128
    with pytest.raises(NotCanonical, match="128"):
        canonical_json(nested(129))
    deep: dict[str, Any] = {}
    for _ in range(128):
        deep = {"a": deep}
    with pytest.raises(NotCanonical, match="128"):
        canonical_json(deep)


@pytest.mark.parametrize("kinds", ["d", "ld", "dlt", "ddt"])
def test_128_levels_of_any_mixture_are_fine_and_129_are_not(kinds: str) -> None:
    def mixed(levels: int) -> Any:
        value: Any = None
        for level in range(levels):
            value = {"d": {"a": value}, "l": [value], "t": (value,)}[kinds[level % len(kinds)]]
        return value

    assert canonical_json(mixed(128)).count(b"{") + canonical_json(mixed(128)).count(b"[") == 128
    assert canonical_json([mixed(127), mixed(127)]) == b"[%b,%b]" % ((canonical_json(mixed(127)),) * 2)
    for wrong in (mixed(129), [1, mixed(128)], {"a": 1, "b": mixed(128)}):
        with pytest.raises(NotCanonical, match="nested more than 128 levels deep"):
            canonical_json(wrong)


def test_the_first_culprit_is_named_and_nothing_that_is_fine() -> None:
    fine: list[Any] = [None, True, 1, 2**70, 1.5, 1.7976931348623157e308, -1e-7, "x", {}, [], ()]
    with pytest.raises(NotCanonical, match="nan is not a JSON number") as caught:
        canonical_json([*fine, float("nan"), object()])
    assert caught.value.path == f"$[{len(fine)}]"
    with pytest.raises(NotCanonical, match="object is not a JSON type") as caught:
        canonical_json({"fine": fine, "wrong": object()})
    assert caught.value.path == "$.wrong"
    deepest: Any = [1, object()]
    for _ in range(127):
        deepest = [deepest]
    with pytest.raises(NotCanonical, match="object is not a JSON type") as caught:
        canonical_json(deepest)
    assert caught.value.path == "$" + "[0]" * 127 + "[1]"


def test_a_nesting_far_beyond_the_limit_is_refused_and_not_a_crash() -> None:
    with pytest.raises(NotCanonical):
        canonical_json(nested(100_000))


@pytest.mark.parametrize("digits", [1, 4_000, 4_001, 20_000])
def test_integers_of_any_size_are_exact(digits: int) -> None:
    assert canonical_json(10**digits + 7) == b"1" + b"0" * (digits - 1) + b"7"
    assert canonical_json(-(10**digits)) == b"-1" + b"0" * digits


@pytest.mark.parametrize("digits", [1, 4_000, 4_299, 4_300, 4_301, 20_000])
def test_what_was_written_is_read_back_exactly(digits: int) -> None:
    for value in (10**digits + 7, -(10**digits) - 7, {"a": [-(10**digits), 1.5, "é", None]}):
        assert read_json(canonical_json(value)) == value


@pytest.mark.parametrize("limit", [0, 640, 4_300])
def test_the_interpreter_s_limit_for_integers_changes_no_text(limit: int) -> None:
    usual = sys.get_int_max_str_digits()
    value = [10**digits + 7 for digits in (639, 640, 641, 4_299, 4_300, 20_000)]
    value += [10**640 - 1, 10**640, -(10**640), 1 - 10**640, 10**1280, 10**1280 - 1]
    text = canonical_json(value)
    sys.set_int_max_str_digits(limit)
    try:
        assert canonical_json(value) == text
        assert read_json(text) == value
    finally:
        sys.set_int_max_str_digits(usual)


@pytest.mark.parametrize(
    "wrong",
    [
        *(b"", b"{", b"nul", b"NaN", b"[1,]", b'"\\ud800"', b'"\xff"', b"[" * 100_000),
        *(b"[NaN," + b"9" * 5_000 + b"]", b"1e400", b"[-1e400," + b"9" * 5_000 + b"]", b"9" * 400 + b".5"),
    ],
    ids=lambda wrong: ascii(wrong[:12]),
)
def test_what_is_no_json_is_refused_when_read(wrong: bytes) -> None:
    with pytest.raises(NotCanonical):
        read_json(wrong)


def test_hashes() -> None:
    assert hash_text("You are a helpful assistant.") == (
        "75357d685f238b6afd7738be9786fdafde641eb6ca9a3be7471939715a68a4de"
    )
    assert hash_json({"b": 1, "a": 2}) == hash_bytes(b'{"a":2,"b":1}')
    with pytest.raises(InvalidText, match="a title"):
        utf8("x\ud800", "a title")


@pytest.mark.mutant
def test_an_encoder_that_keeps_the_order_of_keys_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_encode", msgspec.json.encode)
    assert canonical_json({"b": 1, "a": 2}) != canonical_json({"a": 2, "b": 1})
