"""How a text is read and becomes Python, where Jinja accepts what has no meaning or makes what Python warns about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame, operators
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import Lexer, Token

from sapwood.templates.limits import MAX_DIGITS

_TOO_LARGE: Final = 10**MAX_DIGITS
_ESCAPE: Final = re.compile(r"\\([4-7][0-7]{2}|.)", re.DOTALL)
_KNOWN: Final = frozenset("\n\\'\"abfnrtv01234567xNuU")
_UNCLOSED: Final = {"comment_begin": "a comment that is not closed", "raw_begin": "a raw block that is not closed"}


class OverLimit(Exception):
    """What the text says in a line is more than is read."""

    def __init__(self, cause: str, lineno: int) -> None:
        super().__init__(cause)
        self.lineno = lineno


class StrictLexer(Lexer):
    """Refuses what is open when the text ends, and numbers that have no text; knows what a backslash means."""

    def wrap(
        self, stream: Iterable[tuple[int, str, str]], name: str | None = None, filename: str | None = None
    ) -> Iterator[Token]:
        return super().wrap(_checked(stream), name, filename)


def _checked(stream: Iterable[tuple[int, str, str]]) -> Iterator[tuple[int, str, str]]:
    line, kind = 1, ""
    for line, kind, text in stream:
        if kind == "integer":
            _refuse_too_large(text.replace("_", ""), line)
        yield line, kind, _ESCAPE.sub(_as_python_means_it, text) if kind == "string" else text
    if kind in _UNCLOSED:
        raise TemplateSyntaxError(_UNCLOSED[kind], line)


def _as_python_means_it(escape: re.Match[str]) -> str:
    r"""Return an escape such as \d, which Python reads as it stands but warns about, as one that it does not mind."""
    what = escape[1]
    if len(what) == 3:
        return chr(int(what, 8))
    return escape[0] if what in _KNOWN or not what.isascii() else "\\" + escape[0]


def _refuse_too_large(digits: str, line: int) -> None:
    if len(digits) > MAX_DIGITS if digits.isdecimal() else int(digits, 0) >= _TOO_LARGE:
        raise OverLimit(f"an integer of more than {MAX_DIGITS} digits", line)


class StrictCode(CodeGenerator):
    """Asks the environment where Python would take a missing value, or warn, and where Jinja expects a text."""

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802 - as in Jinja
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("environment.getslice(")
        self.visit(node.node, frame)
        for bound in (node.arg.start, node.arg.stop, node.arg.step):
            self.write(", ")
            self.visit(bound or nodes.Const(None), frame)
        self.write(")")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:  # noqa: N802 - as in Jinja
        self.write("(")
        operand = node.expr
        for operator in node.ops:
            self._visit_operand(operand, frame, operator.op in ("in", "notin"))
            self.write(f" {operators[operator.op]} ")
            operand = operator.expr
        self._visit_operand(operand, frame, is_member=False)
        self.write(")")

    def _visit_operand(self, operand: nodes.Expr, frame: Frame, is_member: bool) -> None:
        self.write("environment.given(" if is_member else "")
        self.visit(operand, frame)
        self.write(")" if is_member else "")

    def visit_AssignBlock(self, node: nodes.AssignBlock, frame: Frame) -> None:  # noqa: N802 - as in Jinja
        if isinstance(node.target, nodes.NSRef):  # which Jinja checks in the other form of `set` only
            self.writeline(f"environment.check_namespace({frame.symbols.ref(node.target.name)})", node)
        if node.filter:  # Jinja looks for the names of a scope in its body alone
            node.body = [*node.body, *map(nodes.ExprStmt, node.filter.find_all(nodes.Name))]
        super().visit_AssignBlock(node, frame)

    def start_write(self, frame: Frame, node: nodes.Node | None = None) -> None:
        """Begin the output of a filter or call block, which need not be text."""
        super().start_write(frame, node)
        self.write("environment.text_of(")

    def end_write(self, frame: Frame) -> None:
        self.write(")")
        super().end_write(frame)
