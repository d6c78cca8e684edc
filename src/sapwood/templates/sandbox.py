"""The one Jinja environment: sandboxed, strict about what is undefined, and the same on every machine.

Values in a template are JSON values and what can be computed from them. Whatever else Jinja has at hand (methods,
macros, loops, generators) can be used but never turned into text: its text would be an address or the name of a class.
Nothing is computed while a template is compiled, so compiling a hostile template costs no more than its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from itertools import islice
from pprint import pformat
from types import NoneType
from typing import Any, Final, NoReturn

from jinja2 import StrictUndefined, Template, Undefined, nodes, pass_context
from jinja2.compiler import Frame
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.idtracking import VAR_LOAD_RESOLVE
from jinja2.meta import TrackingCodeGenerator
from jinja2.runtime import Context, LoopContext, Macro, TemplateReference
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter, safe_range
from jinja2.tests import TESTS as JINJA_TESTS
from markupsafe import Markup

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

PLAIN: Final = frozenset({str, int, float, bool, NoneType, list, tuple, dict, range, Markup})
_VIEWS: Final[tuple[type[Iterable[Any]], ...]] = (type({}.keys()), type({}.values()), type({}.items()))
_BATCH: Final = 32  # chunks between two looks at the size


class OutputTooLong(Exception):
    """More text than the limit allows."""


def _no_text(value: object, *_: object) -> NoReturn:
    raise SecurityError(f"a {_shown_type(value)} cannot be turned into text")


def _shown_type(value: object) -> str:
    return type(value).__name__.lstrip("_").lower()


class _Strict(StrictUndefined):
    """Raises wherever it is used, also when it stands in a list that is printed."""

    __slots__ = ()
    __repr__ = StrictUndefined.__str__


class _ImplicitElse(Undefined):
    """The value of `x if y` when y is false: no text by itself, an error inside other values."""

    __slots__ = ()
    __repr__ = StrictUndefined.__str__


class _Method:
    """A function or bound method: can be called, and nothing else."""

    __slots__ = ("_function",)
    __repr__ = __str__ = __format__ = _no_text

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function


class _Loop(LoopContext):
    __repr__ = __str__ = __format__ = _no_text


class _Macro(Macro):
    __repr__ = __str__ = __format__ = _no_text


class _Blocks(TemplateReference):
    __repr__ = __str__ = __format__ = _no_text


# What compiled templates find in their module instead of Jinja's own classes.
_RUNTIME = {"LoopContext": _Loop, "Macro": _Macro, "TemplateReference": _Blocks, "Undefined": _ImplicitElse}


class _Formatter(SandboxedFormatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        if format_spec.endswith("n") and isinstance(value, int | float):
            raise SecurityError("the format 'n' depends on the locale")
        return super().format_field(value, format_spec)


class _Placeholders(TrackingCodeGenerator):
    """Finds the names that are taken from the arguments, and the first line that reads each."""

    def __init__(self, environment: Sandbox) -> None:
        super().__init__(environment)
        self.lines: dict[str, int] = {}

    def visit_Name(self, node: nodes.Name, frame: Frame) -> None:  # noqa: N802 - as in Jinja
        if node.ctx == "load":
            self._see(node, frame)
        super().visit_Name(node, frame)

    def visit_NSRef(self, node: nodes.NSRef, frame: Frame) -> None:  # noqa: N802 - as in Jinja
        self._see(node, frame)
        super().visit_NSRef(node, frame)

    def _see(self, node: nodes.Name | nodes.NSRef, frame: Frame) -> None:
        if frame.symbols.find_load(frame.symbols.ref(node.name)) == (VAR_LOAD_RESOLVE, node.name):
            self.lines[node.name] = min(node.lineno, self.lines.get(node.name, node.lineno))


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja without anything that could leave the template, change its arguments or differ between two renders."""

    intercepted_binops = frozenset({"**"})

    def __init__(self, max_output_chars: int) -> None:
        super().__init__(
            undefined=_Strict,
            keep_trailing_newline=True,
            autoescape=False,
            optimized=False,
            finalize=_finalize,
            cache_size=0,
        )
        self.max_output_chars = max_output_chars
        self.concat = self._bounded_concat  # type: ignore[method-assign]
        self.filters = {name: _listing(JINJA_FILTERS[name]) for name in FILTERS} | {"pprint": _pretty}
        self.tests = {name: JINJA_TESTS[name] for name in TESTS} | {"sameas": _is_same}
        self.policies["json.dumps_kwargs"] = {"sort_keys": True, "default": _not_json}
        self.globals = {"range": _Method(safe_range), "dict": _Method(dict)}

    def compiled(self, tree: nodes.Template) -> Template:
        """Return a checked tree as something that can be rendered."""
        code = self.compile(tree)
        template = Template.from_code(self, code, self.globals)
        template.root_render_func.__globals__.update(_RUNTIME)
        return template

    def getattr(self, obj: Any, attribute: str) -> Any:
        return _wrapped(super().getattr(obj, attribute))

    def getitem(self, obj: Any, argument: Any) -> Any:
        return _wrapped(super().getitem(obj, argument))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as in Jinja: kwargs may hold any name
        function = __obj._function if type(__obj) is _Method else __obj
        return _as_data(super().call(__context, function, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return _as_data(super().call_binop(context, operator, left, right))  # a power can be a complex number

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return a safe `str.format` or `str.format_map` in place of the real one."""
        text = getattr(value, "__self__", None)
        name = getattr(value, "__name__", "")
        if not callable(value) or not isinstance(text, str) or name not in ("format", "format_map"):
            return None
        vformat = _Formatter(self).vformat
        if name == "format_map":
            return lambda mapping: vformat(text, (), mapping)
        return lambda *args, **kwargs: vformat(text, args, kwargs)

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

    def undeclared(self, tree: nodes.Template) -> dict[str, int]:
        """Return the names that the template takes from its arguments, each with its line."""
        placeholders = _Placeholders(self)
        placeholders.optimizer = None  # it would compute constants, and change the tree while it does
        placeholders.visit(tree)
        names = placeholders.undeclared_identifiers
        return {name: placeholders.lines.get(name) or _first_mention(tree, name) for name in names}


def _first_mention(tree: nodes.Template, name: str) -> int:
    """Return the first line with this name: for a name that only one branch sets."""
    return min(node.lineno for node in tree.find_all(nodes.Node) if getattr(node, "name", None) == name)


@pass_context  # a function of the context: Jinja must not call it, and so not compute the value, at compile time
def _finalize(_context: Context, value: Any) -> Any:
    if type(value) in PLAIN or isinstance(value, Undefined | tuple):  # groupby gives a kind of tuple
        return value
    return _no_text(value)


def _wrapped(value: Any) -> Any:
    if type(value) in PLAIN or isinstance(value, Undefined | _Macro | _Method) or not callable(value):
        return value
    return _Method(value)


def _as_data(value: Any) -> Any:
    """Return the result of a call as data; a view of a dictionary would compute sets, whose order varies."""
    if isinstance(value, _VIEWS):
        return [*value]
    if type(value) in PLAIN or isinstance(value, Undefined | _Macro | _Method | _Loop):
        return value
    return _no_text(value)


def _listing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the filter with a list in place of an iterator: an iterator has an address for a text."""

    @wraps(function)
    def listed(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return list(result) if isinstance(result, Iterator) else result

    return listed


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
