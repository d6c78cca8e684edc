"""Static text + canonical arguments -> rendered text, in this process, with one typed error for whatever goes wrong."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from types import TracebackType
from typing import Final

import jinja2
import msgspec
from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError, UndefinedError

from sapwood.core.template import static_bytes
from sapwood.errors import (
    InvalidArguments,
    TemplateError,
    TemplateFailed,
    TemplateForbidden,
    TemplateLimit,
    TemplateSyntax,
    UndeclaredVariable,
    UndefinedValue,
)
from sapwood.templates.limits import MAX_DIGITS, OUT_OF_MEMORY, RenderLimits
from sapwood.templates.mistakes import deepest_line, find_mistakes
from sapwood.templates.placeholders import find_placeholders
from sapwood.templates.sandbox import MISSING, TOO_DEEP, OutputTooLong, Sandbox
from sapwood.templates.syntax import OverLimit

RENDERER: Final = "sapwood-jinja"
# Our own rules, Jinja's release, and the Unicode tables behind `upper` and its kind: what could change a rendering.
RENDERER_VERSION: Final = f"3+jinja-{jinja2.__version__}+unicode-{unicodedata.unidata_version}"

_decode = msgspec.json.Decoder().decode


class Renderer:
    """Compiles each text once and renders it as often as asked, the same bytes each time."""

    def __init__(self, limits: RenderLimits | None = None, cache_size: int = 256) -> None:
        self._limits = limits or RenderLimits()
        self._sandbox = Sandbox(max_output_chars=self._limits.output_bytes)
        self._compiled = lru_cache(cache_size)(self._compile)

    def check(self, text: str, variables: tuple[str, ...], template_id: str | None = None) -> None:
        """Raise the error that registering this text would be refused with."""
        self._compiled(text, variables, template_id)

    def render(self, text: str, args_json: bytes, variables: tuple[str, ...], template_id: str | None = None) -> str:
        """Return the text with its variables bound to the arguments in `args_json`."""
        template = self._compiled(text, variables, template_id)
        try:
            values = _decode(args_json)
        except msgspec.MsgspecError as error:
            raise InvalidArguments(f"cannot be read back: {error}", template_id=template_id) from None
        try:
            rendered: str = self._sandbox.concat(template.root_render_func(template.new_context(values)))
            if _size_bytes(rendered) > self._limits.output_bytes:
                raise OutputTooLong
        except Exception as error:
            raise self._typed(error, template_id, template) from None
        return rendered

    def _compile(self, text: str, variables: tuple[str, ...], template_id: str | None) -> Template:
        static_bytes(text, template_id)
        tree = None
        try:
            tree = self._sandbox.parse(text)
            for line, cause in find_mistakes(tree, self._sandbox.filters, self._sandbox.tests):
                raise TemplateSyntax(cause, template_id=template_id, line=line)
            self._refuse_undeclared(tree, variables, template_id)
            return self._sandbox.compiled(tree, variables)
        except TemplateError:
            raise
        except Exception as error:
            raise self._typed(error, template_id, tree) from None

    def _refuse_undeclared(self, tree: nodes.Template, variables: tuple[str, ...], template_id: str | None) -> None:
        lines = find_placeholders(tree, self._sandbox.globals)
        names = sorted(lines.keys() - set(variables))
        if names:
            raise UndeclaredVariable(
                f"unresolved placeholder {', '.join(names)}: used and not declared; declare it when you register the "
                "template, or in a leading {# variables: … #}",
                template_id=template_id,
                line=min(lines[name] for name in names),
                names=tuple(names),
            )

    def _typed(
        self, error: Exception, template_id: str | None, where: Template | nodes.Template | None
    ) -> TemplateError:
        kind, cause = _kind_and_cause(error, self._limits)
        line = None
        if isinstance(error, TemplateSyntaxError | OverLimit):
            line = error.lineno
        elif isinstance(where, Template):
            line = _line(error.__traceback__, where)
        elif where is not None and cause == TOO_DEEP:
            line = deepest_line(where)
        return kind(cause, template_id=template_id, line=line)


def _size_bytes(rendered: str) -> int:
    try:
        return len(rendered.encode())
    except UnicodeEncodeError:
        raise SecurityError("the rendered text holds a lone surrogate") from None


def _kind_and_cause(error: Exception, limits: RenderLimits) -> tuple[type[TemplateError], str]:
    match error:
        case TemplateSyntaxError():
            return TemplateSyntax, error.message or "does not parse"
        case SecurityError():
            return TemplateForbidden, error.message or "not allowed"
        case UndefinedError():
            return UndefinedValue, error.message or "a value is not defined"
        case OutputTooLong():
            return TemplateLimit, f"more than {limits.output_bytes} bytes of rendered text"
        case OverLimit():
            return TemplateLimit, str(error)
        case MemoryError():
            return TemplateLimit, OUT_OF_MEMORY
        case SyntaxError() if "too many" not in error.msg:  # of the Python code made from the template
            return TemplateSyntax, error.msg
        case RecursionError() | SyntaxError():  # of the parser, of a macro, or of that code
            return TemplateLimit, TOO_DEEP
        case OverflowError() if "infinity" not in _message(error):  # a range, an index or a power out of bounds
            return TemplateLimit, _message(error)
        case ValueError() if "integer string conversion" in _message(error):
            return TemplateLimit, f"an integer of more than {MAX_DIGITS} digits has no text"
        case TypeError() if MISSING in _message(error):
            return UndefinedValue, "a value that is not defined is used"
        case _:
            return TemplateFailed, f"{type(error).__name__}: {_message(error)}"


def _message(error: Exception) -> str:
    try:
        return str(error.args[-1] if isinstance(error, OverflowError) else error)  # before it may stand a number
    except Exception:  # an error may hold a value that has no text
        return "no message"


def _line(traceback: TracebackType | None, template: Template) -> int | None:
    """Return the line of the template in which the innermost of its frames stood."""
    line = None
    code = template.root_render_func.__globals__
    while traceback is not None:
        if traceback.tb_frame.f_globals is code:
            line = template.get_corresponding_lineno(traceback.tb_lineno)
        traceback = traceback.tb_next
    return line
