"""YAML text -> values that know their place: text, numbers, truths, null, lists and mappings, and nothing else.

Refused here, with the position: what is not YAML, duplicate keys, tags, merge keys, more than one document, a file
that is too large or too deep, and aliases that unfold into too much. `is_ambiguous` finds the words that one version
of YAML reads as text and the other does not (`yes`, `on`, `1_000`): they need quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from sapwood.core.mistakes import Mistake

MAX_FILE_BYTES: Final = 512 * 1024
MAX_VALUES: Final = 50_000
MAX_DEPTH: Final = 40

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?")
_WORDS: dict[str, Any] = {"": None, "null": None, "~": None, "true": True, "false": False}
_RESOLVER: Any = yaml.resolver.Resolver()
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:timestamp")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value; `is_plain` when it stands without quotes."""

    value: Any
    text: str
    line: int
    column: int
    is_plain: bool = True
    is_one_line: bool = True


@dataclass(frozen=True, slots=True)
class Items:
    items: tuple[Value, ...]
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Entries:
    entries: tuple[tuple[Scalar, Value], ...]
    line: int
    column: int


Value = Scalar | Items | Entries


class NotReadable(Exception):
    """The text as a whole cannot be read; carries the one mistake that stopped it."""

    def __init__(self, mistake: Mistake) -> None:
        super().__init__(str(mistake))
        self.mistake = mistake


def parse_source(text: str, file: str) -> tuple[Value, list[Mistake]]:
    """Return the document and the mistakes that did not stop the reading; raise NotReadable for one that did."""
    if len(text.encode(errors="surrogatepass")) > MAX_FILE_BYTES:
        raise NotReadable(Mistake(file, 1, 1, f"the file is larger than {MAX_FILE_BYTES} bytes"))
    composer = _Composer(file)
    try:
        events = yaml.parse(text, Loader=_LOADER)
        return composer.document(events), composer.mistakes
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        if "".join(text.splitlines()[line - 1 : line])[column - 1 : column] == "\t":  # the parser's words name no tab
            raise NotReadable(Mistake(file, line, column, "not YAML: a tab", "indent with spaces")) from None
        raise NotReadable(Mistake(file, line, column, f"not YAML: {error.problem or error.context}")) from None
    except yaml.reader.ReaderError as error:
        raise NotReadable(Mistake(file, *_place_of(text, error.position), f"not YAML: {error.reason}")) from None
    except UnicodeEncodeError as error:
        raise NotReadable(Mistake(file, *_place_of(text, error.start), "a lone surrogate is no Unicode text")) from None


def _place_of(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


class _Composer:
    """Builds the values from the parser's events."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._anchors: dict[str, tuple[Value, int]] = {}
        self._values = 0
        self.mistakes: list[Mistake] = []

    def document(self, events: Iterator[Any]) -> Value:
        found: Value | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if found is not None:
                    raise self._stop(event, "more than one document in the file")
                found = self._value(next(events), events, 0)
        if found is None:
            raise NotReadable(Mistake(self._file, 1, 1, "the file is empty", "expected name, nodes and edges"))
        return found

    def _value(self, event: Any, events: Iterator[Any], depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise self._stop(event, f"nested more than {MAX_DEPTH} levels deep")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        self._count(event, 1)
        if event.tag is not None and event.tag != "!":
            self._note(event, f"tags are not used here: {event.tag[:60]}", "write the value without a tag")
        before = self._values
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        value: Value
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event, line, column)
        elif isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(inner := next(events), yaml.SequenceEndEvent):
                items.append(self._value(inner, events, depth + 1))
            value = Items(tuple(items), line, column)
        else:
            value = Entries(tuple(self._entries(events, depth)), line, column)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._values - before + 1)
        return value

    def _entries(self, events: Iterator[Any], depth: int) -> Iterator[tuple[Scalar, Value]]:
        first: dict[str, int] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = self._value(event, events, depth + 1)
            value = self._value(next(events), events, depth + 1)
            if not isinstance(key, Scalar):
                self._note(event, "a key must be a single word or a quoted text")
            elif key.text == "<<" and key.is_plain:
                self._note(event, "merge keys are not used here", "write the values out")
            elif key.text in first:
                self._note(event, f"{key.text[:80]!r} is given twice", f"the first is in line {first[key.text]}")
            else:
                first[key.text] = key.line
                yield key, value

    def _scalar(self, event: Any, line: int, column: int) -> Scalar:
        is_one_line = event.start_mark.line == event.end_mark.line
        if event.style:  # None or "" when it is plain
            return Scalar(event.value, event.value, line, column, is_plain=False, is_one_line=is_one_line)
        return Scalar(self._plain(event), event.value, line, column, is_one_line=is_one_line)

    def _plain(self, event: Any) -> Any:
        """Read a word without quotes by the rules of YAML 1.2."""
        text = event.value
        if text.lower() in _WORDS and text in (text.lower(), text.capitalize(), text.upper()):
            return _WORDS[text.lower()]
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
        return text

    def _alias(self, event: Any) -> Value:
        value, size = self._anchors.get(event.anchor, (None, 0))
        if value is None:
            raise self._stop(event, f"no value has the anchor {event.anchor!r}")
        self._count(event, size)
        return value

    def _count(self, event: Any, values: int) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            raise self._stop(event, f"the file unfolds into more than {MAX_VALUES} values")

    def _note(self, event: Any, what: str, allowed: str = "") -> None:
        mark = event.start_mark
        self.mistakes.append(Mistake(self._file, mark.line + 1, mark.column + 1, what, allowed))

    def _stop(self, event: Any, what: str) -> NotReadable:
        mark = event.start_mark
        return NotReadable(Mistake(self._file, mark.line + 1, mark.column + 1, what))


def is_ambiguous(scalar: Scalar) -> bool:
    """Tell whether one version of YAML takes this word for text and the other for something else."""
    if not scalar.is_plain or not isinstance(scalar.value, str):
        return False
    tag = _RESOLVER.resolve(yaml.ScalarNode, scalar.text, (True, False))
    return tag not in _TEXT_TAGS
