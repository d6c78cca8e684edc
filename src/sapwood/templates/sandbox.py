"""The one Jinja environment: sandboxed, strict about what is undefined, and the same on every machine.

Values in a template are JSON values and what can be computed from them. Whatever else Jinja has at hand (methods,
macros, loops, generators) can be used but never turned into text: its text would be an address or the name of a class.
Nothing is computed while a template is compiled, so compiling a hostile template costs no more than its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from itertools import islice
from types import NoneType
from typing import Any, Final, NoReturn

from jinja2 import StrictUndefined, Template, Undefined, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS as JINJA_FILTERS
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
_CALLABLE: Final = {"range", "dict", "loop", "caller", "super"}
_FORBIDDEN_TAGS = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


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


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja without anything that could leave the template, change its arguments or differ between two renders."""

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
        self.filters = {name: _listing(JINJA_FILTERS[name]) for name in FILTERS}
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

    def undeclared(self, tree: nodes.Template) -> set[str]:
        """Return the names that the template takes from its arguments."""
        tracker = TrackingCodeGenerator(self)
        tracker.optimizer = None  # it would compute constants, and change the tree while it does
        tracker.visit(tree)
        return tracker.undeclared_identifiers

    def unavailable(self, tree: nodes.Template) -> Iterator[tuple[int, str]]:
        """Give line and reason of whatever the template uses that is not there, also where it may never be reached."""
        for use in tree.find_all(nodes.Filter):
            if use.name not in self.filters:
                yield use.lineno, f"no filter named {use.name!r}"
        for test in tree.find_all(nodes.Test):
            if test.name not in self.tests:
                yield test.lineno, f"no test named {test.name!r}"
        yield from _forbidden_tags(tree)
        yield from _called_variables(tree)


def _called_variables(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    """Give each call of a name that can only be an argument: those are data (so Jinja's lipsum and now() end here)."""
    own = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"}
    own.update(macro.name for macro in tree.find_all(nodes.Macro))
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name not in own | _CALLABLE:
            yield call.lineno, f"{call.node.name}() cannot be called: there is no such function, and arguments are data"


def _forbidden_tags(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    for node in tree.find_all(_FORBIDDEN_TAGS):
        yield node.lineno, "a template stands alone: include, import and extends are not available"
    for node in tree.find_all(nodes.EvalContextModifier):
        if not all(isinstance(option.value, nodes.Const) for option in node.options):
            yield node.lineno, "autoescape takes true or false"


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


def _not_json(value: Any) -> NoReturn:
    if isinstance(value, Undefined):
        value._fail_with_undefined_error()
    _no_text(value)


def _is_same(value: Any, other: Any) -> bool:
    """Tell whether both are the same one of none, true and false; of other values identity is an accident."""
    if not isinstance(other, bool | NoneType):
        raise SecurityError("`is sameas` compares with none, true and false only; use ==")
    return value is other
