"""JSON value <-> canonical bytes: one value, one text, one hash.

Keys in code point order, no white space, the shortest number that reads back to the same double. `msgspec` writes
the bytes; this module refuses what has no canonical form and rewrites the few floats it prints differently.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from sapwood.errors import NotCanonical

MAX_NESTING: Final = 128
NO_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # what a decoder raises for wrong bytes

_encode = msgspec.json.Encoder(order="sorted").encode
_EXACT_BELOW = 2.0**53
_DIGITS_AT_ONCE = 640  # the least to which the interpreter can be limited
_HUGE = 10**_DIGITS_AT_ONCE


class _Refused(Exception):
    """Some value has no canonical form; `_culprit` finds out which."""


def canonical_json(value: Any) -> bytes:
    """Return the canonical JSON of `value`; raise NotCanonical with the path of the first value that has none."""
    try:
        return _encode(_normal(value, 0))
    except (_Refused, UnicodeEncodeError):
        raise next(_culprits(value, "$", 0)) from None


def read_json(data: bytes) -> Any:
    """Return the value of JSON bytes, its integers exact; raise NotCanonical when they are no JSON."""
    try:
        try:
            return _decode(data)
        except msgspec.ValidationError:  # an integer of more digits than the interpreter likes to read at once
            return json.loads(data, parse_int=_read_integer, parse_float=_read_double, parse_constant=_refuse_constant)
    except (msgspec.DecodeError, ValueError) as error:
        raise NotCanonical("$", f"the bytes are no JSON: {error}") from None
    except RecursionError:
        raise NotCanonical("$", f"the bytes are JSON nested more than {MAX_NESTING} levels deep") from None


def _read_double(text: str) -> float:
    value = float(text)
    if value in (math.inf, -math.inf):
        raise ValueError(f"{text[:40]} is beyond what a double holds")
    return value


_decode = msgspec.json.Decoder(float_hook=_read_double).decode


def _normal(value: Any, depth: int) -> Any:
    """Return `value` in the form that the encoder prints canonically, itself where nothing had to change."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int:
        return value if -_HUGE < value < _HUGE else msgspec.Raw(_integer_text(value).encode())
    if kind is float:
        return _number(value)
    if kind is dict:
        return _normal_dict(value, depth + 1)
    if kind is list or kind is tuple:
        return _normal_list(value, depth + 1)
    plain = _plain(value)
    if plain is value:
        raise _Refused
    return _normal(plain, depth)


def _plain(value: Any) -> Any:
    """Return what a value that carries more is in JSON: a recorded prompt, an IntEnum, an OrderedDict; others as is."""
    match value:
        case bool():
            return value
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case dict():
            return dict(dict.items(value))
        case list() | tuple():
            return [*value]
    return value


def _normal_dict(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    if depth > MAX_NESTING:
        raise _Refused
    changed = None
    for key, item in value.items():
        if type(key) is not str:
            return _normal_dict(_with_plain_names(value), depth)
        kind = type(item)
        if kind is str or kind is bool or item is None:
            continue
        normal = _normal(item, depth)
        if normal is not item:
            if changed is None:
                changed = dict(value)
            changed[key] = normal
    return value if changed is None else changed


def _with_plain_names(value: dict[Any, Any]) -> dict[str, Any]:
    plain = {str.__str__(key): item for key, item in value.items() if isinstance(key, str)}
    if len(plain) < len(value):
        raise _Refused
    return plain


def _normal_list(value: list[Any] | tuple[Any, ...], depth: int) -> list[Any] | tuple[Any, ...]:
    if depth > MAX_NESTING:
        raise _Refused
    changed = None
    for index, item in enumerate(value):
        kind = type(item)
        if kind is str or kind is bool or item is None:
            continue
        normal = _normal(item, depth)
        if normal is not item:
            if changed is None:
                changed = list(value)
            changed[index] = normal
    return value if changed is None else changed


def _number(value: float) -> Any:
    size = abs(value)
    if size < _EXACT_BELOW and value.is_integer():
        return int(value)  # -0.0 becomes 0
    if 1e-5 <= size < _EXACT_BELOW:
        return value
    if not size <= 1.7976931348623157e308:
        raise _Refused  # NaN fails every comparison
    if 1e-6 <= size < 1e21:
        return msgspec.Raw(_positional(value).encode())
    return value


def _positional(value: float) -> str:
    """Return the shortest digits of `value`, whose repr has an exponent or a fraction of zero, without either."""
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    point = len(whole) + int(exponent or 0)
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point >= len(digits):
        return sign + digits + "0" * (point - len(digits))
    return sign + digits[:point]  # repr ended in ".0"


def _integer_text(value: int) -> str:
    if value < 0:
        return "-" + _integer_text(-value)
    parts = []
    while value >= _HUGE:
        value, low = divmod(value, _HUGE)
        parts.append(f"{low:0{_DIGITS_AT_ONCE}d}")
    parts.append(str(value))
    return "".join(reversed(parts))


def _read_integer(text: str) -> int:
    if text.startswith("-"):
        return -_read_integer(text[1:])
    number = 0
    for at in range(0, len(text), _DIGITS_AT_ONCE):
        digits = text[at : at + _DIGITS_AT_ONCE]
        number = number * 10 ** len(digits) + int(digits)
    return number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _culprits(value: Any, path: str, depth: int) -> Iterator[NotCanonical]:
    value = _plain(value)
    kind = type(value)
    if kind in (dict, list) and depth >= MAX_NESTING:
        yield NotCanonical(path, f"nested more than {MAX_NESTING} levels deep")
    elif kind is dict:
        names: set[str] = set()
        for name, item in value.items():
            if not isinstance(name, str):
                yield NotCanonical(path, f"a key of type {type(name).__name__}; keys are strings")
                continue
            key = str.__str__(name)
            if key in names:
                yield NotCanonical(path, f"the key {key!a} twice")
            names.add(key)
            step = f"{path}.{key}" if key.isidentifier() else f"{path}[{key!a}]"
            if not _is_unicode(key):
                yield NotCanonical(step, "a lone surrogate in the key")
            yield from _culprits(item, step, depth + 1)
    elif kind is list:
        for index, item in enumerate(value):
            yield from _culprits(item, f"{path}[{index}]", depth + 1)
    elif kind is str:
        if not _is_unicode(value):
            yield NotCanonical(path, "a lone surrogate in the text")
    elif kind is float:
        if not abs(value) <= 1.7976931348623157e308:
            yield NotCanonical(path, f"{value} is not a JSON number")
    elif kind is not int and kind is not bool and value is not None:
        yield NotCanonical(path, f"{kind.__name__} is not a JSON type")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
