"""Template ids and template versions: what kind of template, and which text of it.

An id names a family for ever; a version is one text of that family, identified by (id, content hash) and by the key it
got when it was first stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sapwood.core.canonical import canonical_json
from sapwood.core.expect import expect
from sapwood.core.keys import ArtifactKey
from sapwood.errors import (
    InvalidArguments,
    InvalidTemplateId,
    NotCanonical,
    TemplateLimit,
    TemplateNotStatic,
    TemplateSyntax,
    shown,
)

MAX_LEVELS: Final = 8
MAX_LENGTH: Final = 256
RESERVED_PREFIXES: Final = ("tpl.agent", "tpl.system", "tpl.workflow", "tpl.tool")
MAX_TEMPLATE_BYTES: Final = 256 * 1024
MAX_ARGS_BYTES: Final = 8 * 1024 * 1024

_SEGMENT = "[a-z][a-z0-9_]{0,63}"
_DECLARATION = re.compile(r"\ufeff?\s*\{#[-+]?\s*variables:([^#]*?)[-+]?#\}")
_TEMPLATE_ID = re.compile(rf"tpl\.({_SEGMENT}\.){{1,7}}{_SEGMENT}")


@dataclass(frozen=True, slots=True, order=True)
class TemplateId:
    """A valid template id."""

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidTemplateId(self.text, "not a string")
        if len(self.text) > MAX_LENGTH:
            raise InvalidTemplateId(self.text, f"{len(self.text)} characters, the limit is {MAX_LENGTH}")
        if not _TEMPLATE_ID.fullmatch(self.text):
            raise InvalidTemplateId(self.text, "wrong shape")
        if self.text.count(".") >= MAX_LEVELS:
            raise InvalidTemplateId(self.text, f"more than {MAX_LEVELS} levels")
        object.__setattr__(self, "text", str.__str__(self.text))  # of a subclass, what it holds

    def is_in_family(self, prefix: str) -> bool:
        """Tell whether this id is `prefix` or stands below it; `tpl.agent.disc` does not hold `tpl.agent.discovery`."""
        expect(prefix, str, "prefix", "an id or the beginning of one")
        return f"{self.text}.".startswith(prefix.rstrip(".") + ".")

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TemplateVersion:
    """One stored text of a template family."""

    key: ArtifactKey
    template_id: TemplateId
    text: str
    content_hash: str
    variables: tuple[str, ...]
    last_updated_ms: int


class Templated(Protocol):
    """What every kind of template gives: a stable identity, the text that has it, and rendering."""

    @property
    def template_id(self) -> TemplateId:
        """The id of the family."""

    @property
    def text(self) -> str:
        """The static text."""

    @property
    def content_hash(self) -> str:
        """The hash of the static text: with the id, the identity of the version."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The declared variables."""

    def render(self, args: Mapping[str, Any]) -> str:
        """Return the text with its variables bound to `args`."""


def static_bytes(text: str, template_id: str | None = None) -> bytes:
    """Return the bytes of a static text, which are its identity; raise when no renderer could give them back."""
    if not isinstance(text, str):
        raise TemplateNotStatic(f"a template is text, not {type(text).__name__}", template_id=template_id)
    if (position := text.find("\r")) >= 0:
        cause = "the text holds a carriage return, which rendering would change; save it with \\n line ends"
        raise TemplateNotStatic(cause, template_id=template_id, line=text.count("\n", 0, position) + 1)
    if len(text) > MAX_TEMPLATE_BYTES:
        raise _too_long(len(text), template_id)
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise TemplateNotStatic("the text holds a lone surrogate", template_id=template_id, line=line) from None
    if len(data) > MAX_TEMPLATE_BYTES:
        raise _too_long(len(data), template_id)
    return data


def _too_long(size_bytes: int, template_id: str | None) -> TemplateLimit:
    return TemplateLimit(f"{size_bytes} bytes; the limit is {MAX_TEMPLATE_BYTES}", template_id=template_id)


def declared_variables(text: str, given: Iterable[str] = (), template_id: str | None = None) -> tuple[str, ...]:
    """Return the variables that the caller declares and those in the leading `{# variables: a, b #}`, in order."""
    expect(text, str, "text", "the text of a template")
    if not isinstance(given, Iterable) or isinstance(given, str):
        what = f"one text, {given!r}; write them as a list" if isinstance(given, str) else type(given).__name__
        raise InvalidArguments(f"variables are names, not {what}", template_id=template_id)
    names = {_checked_name(name, template_id): None for name in given}
    leading = _DECLARATION.match(text)
    if leading and leading[1].strip():
        line = text.count("\n", 0, leading.start(1)) + 1
        for part in leading[1].split(","):
            above = part[: len(part) - len(part.lstrip())].count("\n")
            names[_checked_name(part.strip(), template_id, line + above)] = None
            line += part.count("\n")
    return tuple(sorted(names))


def _checked_name(name: object, template_id: str | None, line: int | None = None) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise TemplateSyntax(f"{shown(name)} cannot be the name of a variable", template_id=template_id, line=line)
    return name


def argument_bytes(args: Mapping[str, Any], variables: Iterable[str], template_id: str | None = None) -> bytes:
    """Return the canonical JSON of `args`: what is stored as PromptArgs, and what is read back to be rendered."""
    if not isinstance(args, Mapping):
        raise InvalidArguments(f"arguments are a mapping, not {type(args).__name__}", template_id=template_id)
    known = frozenset(variables)
    unknown = [name for name in args if name not in known]
    if unknown:
        names = tuple(map(str, unknown))
        shown = ", ".join(map(repr, names[:10]))
        raise InvalidArguments(
            f"arguments that the template does not declare: {shown}", template_id=template_id, names=names
        )
    try:
        data = canonical_json(dict(args))
    except NotCanonical as error:
        raise InvalidArguments(str(error), template_id=template_id) from None
    if len(data) > MAX_ARGS_BYTES:
        cause = f"{len(data)} bytes of arguments; the limit is {MAX_ARGS_BYTES}"
        raise TemplateLimit(cause, template_id=template_id)
    return data
