"""Guard text -> predicate over `decision`, `report`, `inputs` and `attempt`. A grammar of its own, never `eval`.

    guard      = all ("or" all)*              all        = test ("and" test)*
    test       = "not" test | comparison      comparison = value [operator value]
    operator   = "==" "!=" "<" "<=" ">" ">=" "in" "not in"
    value      = number | string | true | false | null | "[" value, … "]" | field | "(" guard ")"
    field      = ("decision" | "report" | "inputs" | "attempt") ("." name | "[" number or string "]")*

What cannot be known (a missing field, two kinds that do not compare) is neither true nor false: `x or true` is true,
`not x` is not. A guard that comes out unknown does not hold, and says why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from sapwood.errors import InvalidGuard

MAX_GUARD_CHARS: Final = 1000
MAX_GUARD_DEPTH: Final = 32
ROOTS: Final = ("decision", "report", "inputs", "attempt")

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?(?![A-Za-z0-9_.]))
      |(?P<string>'(?:[^'\\\n]|\\['"\\])*'|"(?:[^"\\\n]|\\['"\\])*")
      |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
      |(?P<sign>==|!=|<=|>=|<|>|[()\[\],.]))""",
    re.VERBOSE,
)
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_MEANT: Final = {"=": "==", "&": "and", "|": "or", "!": "not"}
_CONSTANTS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_RESERVED = {"and", "or", "not", "in", *_CONSTANTS}


@dataclass(frozen=True, slots=True)
class Scope:
    """What a guard may look at: the structured result of one visit, the run's inputs and the number of the attempt."""

    decision: str | None = None
    report: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 1


class Verdict(NamedTuple):
    """Whether the guard holds; `reason` is a stable code, `detail` says it in words."""

    holds: bool
    reason: Literal["true", "false", "missing", "type"]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard that parsed. `fields` are the paths it reads, for checks before a run."""

    text: str
    fields: tuple[tuple[str | int, ...], ...]
    _root: _Expression

    def evaluate(self, scope: Scope) -> Verdict:
        """Tell whether the guard holds; never raises, whatever the report contains."""
        value = self._root.value(scope)
        if isinstance(value, _Unknown):
            return Verdict(False, value.reason, value.detail)
        if not isinstance(value, bool):
            return Verdict(False, "type", f"the guard gives {_kind(value)}, not true or false")
        return Verdict(value, "true" if value else "false")


def parse_guard(text: str) -> Guard:
    """Parse a guard; raise InvalidGuard with the position (from 1) of what is wrong."""
    if len(text) > MAX_GUARD_CHARS:
        raise InvalidGuard(text, MAX_GUARD_CHARS + 1, f"longer than {MAX_GUARD_CHARS} characters")
    parser = _Parser(text, _tokens(text))
    root = parser.any_of(0)
    parser.end()
    return Guard(text, tuple(parser.fields), root)


class _Unknown(NamedTuple):
    reason: Literal["missing", "type"]
    detail: str


class _Expression:
    __slots__ = ()

    def value(self, scope: Scope) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Constant(_Expression):
    constant: Any

    def value(self, scope: Scope) -> Any:
        return self.constant


@dataclass(frozen=True, slots=True)
class _List(_Expression):
    items: tuple[_Expression, ...]

    def value(self, scope: Scope) -> Any:
        values = [item.value(scope) for item in self.items]
        return next((value for value in values if isinstance(value, _Unknown)), values)


@dataclass(frozen=True, slots=True)
class _Field(_Expression):
    path: tuple[str | int, ...]

    def value(self, scope: Scope) -> Any:
        root, *steps = self.path
        value = getattr(scope, str(root))
        for step in steps:
            held = _held(value, step)
            if isinstance(held, _Unknown):
                return _Unknown("missing", f"{path_text(self.path)} is missing")
            value = held
        return value


@dataclass(frozen=True, slots=True)
class _Not(_Expression):
    test: _Expression

    def value(self, scope: Scope) -> Any:
        value = _truth(self.test.value(scope))
        return value if isinstance(value, _Unknown) else not value


@dataclass(frozen=True, slots=True)
class _Chain(_Expression):
    """`and` (which ends at the first false) or `or` (at the first true); an unknown only counts if nothing ends it."""

    ends_at: bool
    tests: tuple[_Expression, ...]

    def value(self, scope: Scope) -> Any:
        values = [_truth(test.value(scope)) for test in self.tests]
        if self.ends_at in [value for value in values if isinstance(value, bool)]:
            return self.ends_at
        return next((value for value in values if isinstance(value, _Unknown)), not self.ends_at)


@dataclass(frozen=True, slots=True)
class _Comparison(_Expression):
    operator: str
    left: _Expression
    right: _Expression

    def value(self, scope: Scope) -> Any:
        left, right = self.left.value(scope), self.right.value(scope)
        for side in (left, right):
            if isinstance(side, _Unknown):
                return side
        answer = _compare(self.operator, left, right)
        if answer is None:
            return _Unknown("type", f"{_kind(left)} {self.operator} {_kind(right)} cannot be compared")
        return answer


def path_text(path: Sequence[str | int]) -> str:
    """Return a field's path the way it is written."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def _compare(operator: str, left: Any, right: Any) -> bool | None:
    """Return the answer, or None where the kinds do not compare."""
    match operator:
        case "==" | "!=":
            if left is not None and right is not None and _kind(left) != _kind(right):
                return None
            return bool(left == right) == (operator == "==")
        case "in" | "not in":
            held = _is_in(left, right)
            return None if held is None else held == (operator == "in")
        case _:
            if _kind(left) != _kind(right) or _kind(left) not in ("a number", "text"):
                return None
            return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator])


def _is_in(left: Any, right: Any) -> bool | None:
    if isinstance(right, list | tuple):
        return any(_kind(left) == _kind(item) and left == item for item in right)
    if isinstance(left, str) and isinstance(right, str | Mapping):
        return left in right
    return None


def _held(value: Any, step: str | int) -> Any:
    """Return what `value` holds at `step`, or an _Unknown."""
    if isinstance(step, str) and isinstance(value, Mapping) and step in value:
        return value[step]
    if isinstance(step, int) and isinstance(value, list | tuple) and step < len(value):
        return value[step]
    return _Unknown("missing", "")


def _truth(value: Any) -> bool | _Unknown:
    if isinstance(value, bool | _Unknown):
        return value
    return _Unknown("type", f"{_kind(value)} is neither true nor false")


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list() | tuple():
            return "a list"
        case _:
            return "an object"


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def _tokens(text: str) -> list[_Token]:
    tokens = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            meant = _MEANT.get(text[at])
            raise InvalidGuard(
                text, at + 1, f"unexpected {text[at]!r}" + (f"; did you mean {meant!r}?" if meant else "")
            )
        kind = found.lastgroup or ""
        tokens.append(_Token(kind, found[kind], found.start(kind) + 1))
        at = found.end()
    tokens.append(_Token("end", "the end", len(text) + 1))
    return tokens


class _Parser:
    """Recursive descent over the tokens; every nesting counts toward the depth."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0
        self.fields: list[tuple[str | int, ...]] = []

    def any_of(self, depth: int) -> _Expression:
        return self._chain("or", True, depth)

    def end(self) -> None:
        token = self._next
        if token.text in (*_COMPARISONS, "in", "not"):
            raise self._wrong("comparisons cannot be chained; join them with and")
        if token.kind != "end":
            raise self._wrong(f"expected and, or, a comparison or the end, not {token.text!r}")

    def _chain(self, word: str, ends_at: bool, depth: int) -> _Expression:
        part = self._test if word == "and" else self._all_of
        tests = [part(depth)]
        while self._takes(word):
            tests.append(part(depth))
        return tests[0] if len(tests) == 1 else _Chain(ends_at, tuple(tests))

    def _all_of(self, depth: int) -> _Expression:
        return self._chain("and", False, depth)

    def _test(self, depth: int) -> _Expression:
        if depth > MAX_GUARD_DEPTH:
            raise self._wrong(f"nested more than {MAX_GUARD_DEPTH} levels deep")
        if self._takes("not"):
            return _Not(self._test(depth + 1))
        left = self._value(depth)
        operator = self._operator()
        return left if operator is None else _Comparison(operator, left, self._value(depth))

    def _operator(self) -> str | None:
        for operator in (*_COMPARISONS, "in"):
            if self._takes(operator):
                return operator
        if self._takes("not"):
            self._expect("in")
            return "not in"
        return None

    def _value(self, depth: int) -> _Expression:
        if depth > MAX_GUARD_DEPTH:
            raise self._wrong(f"nested more than {MAX_GUARD_DEPTH} levels deep")
        token = self._next
        if token.kind in ("number", "string"):
            return _Constant(self._literal())
        if self._takes("("):
            inside = self.any_of(depth + 1)
            self._expect(")")
            return inside
        if self._takes("["):
            return self._list(depth + 1)
        if token.text in _CONSTANTS:
            self._at += 1
            return _Constant(_CONSTANTS[token.text])
        if token.kind == "word" and token.text in ROOTS:
            return self._field()
        if token.kind == "word" and token.text not in _RESERVED:
            raise self._wrong(f"unknown name {token.text!r}; a guard reads {', '.join(ROOTS)} (text needs quotes)")
        raise self._wrong(f"expected a value, not {token.text!r}" if token.kind != "end" else "a value is missing")

    def _literal(self) -> Any:
        token = self._tokens[self._at]
        self._at += 1
        if token.kind == "string":
            return re.sub(r"\\(.)", r"\1", token.text[1:-1])
        return float(token.text) if any(mark in token.text for mark in ".eE") else int(token.text)

    def _list(self, depth: int) -> _Expression:
        items: list[_Expression] = []
        while not self._takes("]"):
            if items:
                self._expect(",")
            items.append(self._value(depth))
        return _List(tuple(items))

    def _field(self) -> _Expression:
        path: list[str | int] = [self._next.text]
        self._at += 1
        while True:
            if self._takes("."):
                if self._next.kind != "word":
                    raise self._wrong("a field name must follow the dot")
                path.append(self._next.text)
                self._at += 1
            elif self._takes("["):
                step = self._literal() if self._next.kind in ("number", "string") else None
                if step is None or isinstance(step, float) or (isinstance(step, int) and step < 0):
                    raise self._wrong("expected a place (0, 1, …) or a quoted name between [ and ]")
                self._expect("]")
                path.append(step)
            else:
                break
        self.fields.append(tuple(path))
        return _Field(tuple(path))

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _takes(self, text: str) -> bool:
        """Step over the next token if it is this sign or word; a quoted text never is."""
        token = self._next
        if token.kind not in ("sign", "word") or token.text != text:
            return False
        self._at += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise self._wrong(f"expected {text!r} before {self._next.text!r}")

    def _wrong(self, why: str) -> InvalidGuard:
        return InvalidGuard(self._text, self._next.position, why)
