"""Mistakes that stand in a parsed template: found when it is registered, before anything is rendered."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator
from math import isinf
from typing import Final

from jinja2 import nodes

# The filters that apply a filter or a test to each value, and which of their arguments names it.
_APPLIES: Final = {
    "map": ("filter", 0),
    "select": ("test", 0),
    "reject": ("test", 0),
    "selectattr": ("test", 1),
    "rejectattr": ("test", 1),
}
_CALLABLE: Final = {"range", "dict", "namespace", "cycler", "joiner", "loop", "caller", "super"}
_NOT_AN_ARGUMENT: Final = {"__debug__", "_loop_vars", "_block_vars"}  # of Python, and of the code that Jinja makes
_FORBIDDEN_TAGS = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


def find_mistakes(tree: nodes.Template, filters: Collection[str], tests: Collection[str]) -> Iterator[tuple[int, str]]:
    """Give line and reason of whatever the template uses that is not there, also where it may never be reached."""
    for use in tree.find_all(nodes.Filter):
        if use.name not in filters:
            yield use.lineno, f"no filter named {use.name!r}"
        kind, name = _named_in_text(use)
        if kind and name not in (filters if kind == "filter" else tests):
            yield use.lineno, f"no {kind} named {name!r}"
    for test in tree.find_all(nodes.Test):
        if test.name not in tests:
            yield test.lineno, f"no test named {test.name!r}"
    yield from _forbidden_tags(tree)
    yield from _values_without_text(tree)
    yield from _repeated_names(tree)
    yield from _folded_names(tree)
    yield from _called_variables(tree)


def deepest_line(tree: nodes.Template) -> int:
    """Return the line of what is nested most deeply."""
    line, level = 1, list[nodes.Node]((tree,))
    while level:
        line = level[0].lineno or line  # an operand has none
        level = [child for node in level for child in node.iter_child_nodes()]
    return line


def _named_in_text(use: nodes.Filter) -> tuple[str, str]:
    """Return kind and name of what this filter applies, as in `map('upper')`; nothing when that is computed."""
    kind, place = _APPLIES.get(use.name, ("", 0))
    named = use.args[place] if kind and len(use.args) > place else None
    return (kind, named.value) if isinstance(named, nodes.Const) and isinstance(named.value, str) else ("", "")


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


def _values_without_text(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    """Give what Jinja reads and Python cannot be told."""
    for node in tree.find_all((nodes.Const, nodes.Tuple, nodes.Keyword, nodes.CallBlock)):
        match node:
            case nodes.Const(value=float(value)) if isinf(value):
                yield node.lineno, "a number that is too large for a float"
            case nodes.Tuple(items=items) if any(isinstance(item, nodes.Slice) for item in items):
                yield node.lineno, "a slice such as 1:2 stands alone between its brackets"
            case nodes.Keyword(key=key) if key in _NOT_AN_ARGUMENT:
                yield node.lineno, f"{key!r} cannot be the name of an argument"
            case nodes.CallBlock(call=call) if any(argument.key == "caller" for argument in call.kwargs):
                yield node.lineno, "'caller' is what the call block gives; it is no argument"


def _repeated_names(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    """Give each name that a call or a macro has twice: Jinja lets it pass, and Python refuses it without a line."""
    for node in tree.find_all(nodes.Node):
        match node:
            case nodes.Call() | nodes.Filter() | nodes.Test():
                names = Counter(argument.key for argument in node.kwargs)
            case nodes.Macro() | nodes.CallBlock():
                names = Counter(parameter.name for parameter in node.args)
            case _:
                continue
        yield from ((node.lineno, f"{name!r} is given twice") for name, count in names.items() if count > 1)


def _folded_names(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    """Give each name that Python would take for another one: Jinja makes names of Python of them, and mixes them up."""
    for node in tree.find_all(nodes.Node):
        if isinstance(node, nodes.Name | nodes.NSRef | nodes.Macro | nodes.Block):
            name = node.name
        elif isinstance(node, nodes.Keyword):
            name = node.key
        else:
            continue
        if not name.isascii() and (folded := unicodedata.normalize("NFKC", name)) != name:
            yield node.lineno, f"{name!r} cannot be a name: Python reads it as {folded!r}"
