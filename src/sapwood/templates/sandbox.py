"""The one Jinja environment: sandboxed, strict about what is undefined, and the same on every machine.

Values in a template are JSON values and what can be computed from them. Whatever else Jinja has at hand (methods,
macros, loops, generators) can be used but never turned into text: its text would be an address or the name of a class.
Nothing is computed while a template is compiled, so compiling a hostile template costs no more than its length.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import wraps
from itertools import islice
from pprint import pformat
from types import NoneType
from typing import Any, Final, NoReturn, cast

from jinja2 import StrictUndefined, Template, Undefined, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.lexer import Lexer
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro, TemplateReference
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEscapeFormatter, SandboxedFormatter, safe_range
from jinja2.tests import TESTS as JINJA_TESTS
from jinja2.utils import Cycler, Joiner, Namespace
from markupsafe import Markup, escape

from sapwood.templates.syntax import OverLimit, StrictCode, StrictLexer

# By name, so that a new release of Jinja adds nothing by itself. Left out: random (not deterministic), attr (a second
# way to attributes), xmlattr and urlize (HTML, and a history of holes).
# fmt: off
FILTERS: Final = (
    "abs", "batch", "capitalize", "center", "count", "d", "default", "dictsort", "e", "escape", "filesizeformat",
    "first", "float", "forceescape", "format", "groupby", "indent", "int", "items", "join", "last", "length", "list",
    "lower", "map", "max", "min", "pprint", "reject", "rejectattr", "replace", "reverse", "round", "safe", "select",
    "selectattr", "slice", "sort", "string", "striptags", "sum", "title", "tojson", "trim", "truncate", "unique",
    "upper", "urlencode", "wordcount", "wordwrap",
)
# fmt: on
# fmt: off
TESTS: Final = (
    "!=", "<", "<=", "==", ">", ">=", "boolean", "defined", "divisibleby", "eq", "equalto", "even", "false", "float",
    "ge", "greaterthan", "gt", "in", "integer", "iterable", "le", "lessthan", "lower", "lt", "mapping", "ne", "none",
    "number", "odd", "sequence", "string", "true", "undefined", "upper",
)
# fmt: on

FOR_MISSING: Final = frozenset({"default", "d", "defined", "undefined"})

PLAIN: Final = frozenset({str, int, float, bool, NoneType, list, tuple, dict, range, Markup})
_VIEWS: Final[tuple[type[Iterable[Any]], ...]] = (type({}.keys()), type({}.values()), type({}.items()))
_BATCH: Final = 32  # chunks between two looks at the size


TOO_DEEP: Final = "nested or recursive too deeply"


class OutputTooLong(Exception):
    """More text than the limit allows."""


def _no_text(value: object, *_: object) -> NoReturn:
    raise SecurityError(f"a {_shown_type(value)} cannot be turned into text")


def _shown_type(value: object) -> str:
    return type(value).__name__.lstrip("_").lower()


class _Missing(StrictUndefined):
    """Raises wherever it is used, also when it stands in a list that is printed."""

    __slots__ = ()
    __repr__ = StrictUndefined.__str__


MISSING: Final = _Missing.__name__
"""What stands in Python's own errors about a value that is missing."""


class _ImplicitElse(Undefined):
    """The value of `x if y` when y is false: no text by itself, an error inside other values."""

    __slots__ = ()
    __repr__ = StrictUndefined.__str__


class _NoText:
    """What can be used and never printed."""

    __slots__ = ()
    __repr__ = __str__ = __format__ = _no_text


class _Method(_NoText):
    """A function or bound method: can be called, and nothing else."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function


class _Loop(_NoText, LoopContext):
    pass


class _Macro(_NoText, Macro):
    pass


class _Blocks(_NoText, TemplateReference):
    pass


class _Namespace(_NoText, Namespace):
    pass


class _Cycler(_NoText, Cycler):
    pass


class _Joiner(_NoText, Joiner):
    pass


# What compiled templates find in their module instead of Jinja's own classes.
_RUNTIME = {"LoopContext": _Loop, "Macro": _Macro, "TemplateReference": _Blocks, "Undefined": _ImplicitElse}


GLOBALS: Final[dict[str, Callable[..., Any]]] = {
    "range": safe_range,
    "dict": dict,
    "namespace": _Namespace,
    "cycler": _Cycler,
    "joiner": _Joiner,
}


class _Formatter(SandboxedFormatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        if format_spec.endswith("n") and isinstance(value, int | float):
            raise SecurityError("the format 'n' depends on the locale")
        return super().format_field(value, format_spec)


class _EscapingFormatter(_Formatter, SandboxedEscapeFormatter):
    """For texts that are marked safe, which escape what is put into them, as `%` does."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja without anything that could leave the template, change its arguments or differ between two renders."""

    code_generator_class = StrictCode
    intercepted_binops = frozenset({"**", "%"})

    def __init__(self, max_output_chars: int) -> None:
        super().__init__(
            undefined=_Missing,
            keep_trailing_newline=True,
            autoescape=False,
            optimized=False,
            finalize=_finalize,
            cache_size=0,
        )
        self.max_output_chars = max_output_chars
        self.concat = self._bounded_concat  # type: ignore[method-assign]
        self.filters = {name: _applied(name, JINJA_FILTERS[name]) for name in FILTERS}
        self.filters["pprint"] = _applied("pprint", _pretty)
        self.tests = {name: _applied(name, JINJA_TESTS[name]) for name in TESTS}
        self.tests["sameas"] = _applied("sameas", _is_same)
        self.policies["json.dumps_kwargs"] = {"sort_keys": True, "default": _not_json}
        self.globals = {name: _Method(function) for name, function in GLOBALS.items()}
        self._lexer = StrictLexer(self)

    @property
    def lexer(self) -> Lexer:
        return self._lexer

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        parser = Parser(self, source, name, filename)
        try:
            return parser.parse()
        except RecursionError:
            raise OverLimit(TOO_DEEP, parser.stream.current.lineno) from None

    def compiled(self, tree: nodes.Template, variables: Collection[str]) -> Template:
        """Return a checked tree as something that can be rendered; a variable hides the function that has its name."""
        called = {call.node.name for call in tree.find_all(nodes.Call) if isinstance(call.node, nodes.Name)}
        functions = {name: value for name, value in self.globals.items() if name in called or name not in variables}
        template = Template.from_code(self, self.compile(tree), functions)
        template.root_render_func.__globals__.update(_RUNTIME)
        return template

    def getattr(self, obj: Any, attribute: str) -> Any:
        return _wrapped(super().getattr(obj, attribute))

    def getitem(self, obj: Any, argument: Any) -> Any:
        return _wrapped(super().getitem(obj, self.given(argument)))

    def getslice(self, obj: Any, *bounds: Any) -> Any:
        """Return `obj[start:stop:step]`."""
        return obj[slice(*map(self.given, bounds))]

    def given(self, value: Any) -> Any:
        """Return a value that is used; raise when it is missing."""
        if type(value) is _Missing:
            value._fail_with_undefined_error()
        return value

    def text_of(self, value: Any) -> str:
        """Return the output of a filter or call block as it would be printed."""
        return value if isinstance(value, str) else str(_finalize(None, value))

    def check_namespace(self, value: Any) -> None:
        """Raise when `{% set value.name %}` would change something else."""
        if not isinstance(value, Namespace):
            raise SecurityError("only the attributes of a namespace can be set")

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as in Jinja: kwargs may hold any name
        function = __obj._function if type(__obj) is _Method else __obj
        if isinstance(function, Namespace):
            raise SecurityError("a namespace cannot be called")
        if type(function) is not _Macro:  # whose own text says what may be missing
            _refuse_missing(args)
            _refuse_missing(kwargs.values())
        return _as_data(super().call(__context, function, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            _refuse_missing(
                right.values() if isinstance(right, dict) else right if isinstance(right, tuple) else [right]
            )
        return _as_data(super().call_binop(context, operator, left, right))  # a power can be a complex number

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return a safe `str.format` or `str.format_map` in place of the real one."""
        text = getattr(value, "__self__", None)
        name = getattr(value, "__name__", "")
        if not callable(value) or not isinstance(text, str) or name not in ("format", "format_map"):
            return None
        kind = type(text)
        formatter = _EscapingFormatter(self, escape=escape) if isinstance(text, Markup) else _Formatter(self)
        if name == "format_map":
            return lambda mapping: kind(formatter.vformat(text, (), mapping))
        return lambda *args, **kwargs: kind(formatter.vformat(text, args, kwargs))

    def _bounded_concat(self, chunks: Iterable[str]) -> str:
        """Return all chunks as one text; stop soon after there is more of it than allowed."""
        size = 0
        parts: list[str] = []
        rest = iter(chunks)
        while batch := list(islice(rest, _BATCH)):
            size += sum(map(len, batch))
            if size > self.max_output_chars:
                raise OutputTooLong
            parts += batch
        return "".join(parts)


@pass_context  # a function of the context: Jinja must not call it, and so not compute the value, at compile time
def _finalize(_context: Context | None, value: Any) -> Any:
    if type(value) in PLAIN or isinstance(value, Undefined | tuple):  # groupby gives a kind of tuple
        return value
    return _no_text(value)


def _wrapped(value: Any) -> Any:
    if type(value) in PLAIN or isinstance(value, Undefined | _NoText) or not callable(value):
        return value
    return _Method(value)


def _as_data(value: Any) -> Any:
    """Return the result of a call as data; a view of a dictionary would compute sets, whose order varies."""
    if isinstance(value, _VIEWS):
        return [*value]
    if type(value) in PLAIN or isinstance(value, Undefined | _NoText):
        return value
    return _no_text(value)


def _refuse_missing(values: Iterable[Any]) -> None:
    for value in values:
        if type(value) is _Missing:
            value._fail_with_undefined_error()


def _applied(name: str, function: Any) -> Callable[..., Any]:
    """Return a filter or test that takes no missing values, unless it is there for them, and gives no iterators.

    An iterator has an address for a text: it becomes a list.
    """
    if name in FOR_MISSING:
        return cast("Callable[..., Any]", function)

    @wraps(function)
    def applied(*args: Any, **kwargs: Any) -> Any:
        _refuse_missing(args)
        if kwargs:
            _refuse_missing(kwargs.values())
        result = function(*args, **kwargs)
        return list(result) if type(result) not in PLAIN and isinstance(result, Iterator) else result

    return applied


def _pretty(value: Any) -> str:
    """Return a value laid out over lines, its keys in their order: keys that have none, pprint sorts by address."""
    return pformat(value, sort_dicts=False)


def _not_json(value: Any) -> NoReturn:
    if isinstance(value, Undefined):
        value._fail_with_undefined_error()
    _no_text(value)


def _is_same(value: Any, other: Any) -> bool:
    """Tell whether both are the same one of none, true and false; of other values identity is an accident."""
    if not isinstance(other, bool | NoneType):
        raise SecurityError("`is sameas` compares with none, true and false only; use ==")
    return value is other
