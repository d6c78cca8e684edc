"""The names that a template takes from its arguments: what it reads where it may not have set it itself.

The rules are those of Jinja's scopes: the sets of a loop, macro or block end with it, those of an `if` do not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from jinja2 import nodes
from jinja2.visitor import NodeVisitor


def find_placeholders(tree: nodes.Template, functions: Collection[str]) -> dict[str, int]:
    """Return each name that is read and not surely set before, with the first line that reads it so."""
    reader = _Reader(tree.body, functions)
    reader.read(tree.body)
    return reader.lines


class _Reader(NodeVisitor):
    """Walks as the template runs; `_known` holds what is set wherever the walk is, the last of it for this scope."""

    def __init__(self, body: Sequence[nodes.Node], functions: Collection[str]) -> None:
        self.lines: dict[str, int] = {}
        self._known = [{"self", *functions}]
        self._stored = [{*_stored(body)}]  # in each open scope, sooner or later

    def read(self, parts: Iterable[nodes.Node]) -> None:
        for part in parts:
            self.visit(part)

    def _scope(self, parts: Sequence[nodes.Node], known: set[str]) -> None:
        self._known.append(known)
        self._stored.append({*_stored(parts)})
        self.read(parts)
        self._known.pop()
        self._stored.pop()

    def visit_Name(self, node: nodes.Name) -> None:  # noqa: N802 - as in Jinja, here and below
        if node.ctx == "load":
            self._see(node)
        else:
            self._known[-1].add(node.name)

    def visit_NSRef(self, node: nodes.NSRef) -> None:  # noqa: N802
        self._see(node)

    def _see(self, node: nodes.Name | nodes.NSRef) -> None:
        if node.name not in self._known[-1]:
            self.lines[node.name] = min(node.lineno, self.lines.get(node.name, node.lineno))

    def visit_Assign(self, node: nodes.Assign) -> None:  # noqa: N802
        self.read((node.node, node.target))

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> None:  # noqa: N802
        self._scope([*node.body, node.filter] if node.filter else node.body, {*self._known[-1]})
        self.visit(node.target)

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> None:  # noqa: N802
        self._scope([*node.body, node.filter], {*self._known[-1]})

    def visit_Scope(self, node: nodes.Scope) -> None:  # noqa: N802
        self._scope(node.body, {*self._known[-1]})

    def visit_With(self, node: nodes.With) -> None:  # noqa: N802
        self.read(node.values)
        self._scope([*node.targets, *node.body], {*self._known[-1]})

    def visit_If(self, node: nodes.If) -> None:  # noqa: N802
        """Read its branches; what each of them sets is set after it."""
        self.visit(node.test)
        before, after = self._known[-1], []
        for branch in (node.body, *([one.test, *one.body] for one in node.elif_), node.else_):
            self._known[-1] = {*before}
            self.read(branch)
            after.append(self._known[-1])
        self._known[-1] = set.intersection(*after)

    def visit_For(self, node: nodes.For) -> None:  # noqa: N802
        self.visit(node.iter)
        target = [node.target, node.test] if node.test else [node.target]
        self._scope([*target, *node.body], self._known[-1] | {"loop"})
        self._scope(node.else_, {*self._known[-1]})

    def visit_Macro(self, node: nodes.Macro) -> None:  # noqa: N802
        self._known[-1].add(node.name)
        self._callable(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> None:  # noqa: N802
        self.visit(node.call)
        self._callable(node)

    def _callable(self, node: nodes.Macro | nodes.CallBlock) -> None:
        """Read what runs when it is called: then that may be set which stands below it."""
        known = self._known[-1].union({"caller", "kwargs", "varargs"}, *self._stored)
        self._scope([*node.args, *node.defaults, *node.body], known)

    def visit_Block(self, node: nodes.Block) -> None:  # noqa: N802
        """Read a block, which sees the scopes around it when it says `scoped`, and else only the outermost."""
        self._scope(node.body, self._known[-1 if node.scoped else 0] | {"super"})


def _stored(body: Iterable[nodes.Node]) -> Iterator[str]:
    """Give the names that these statements set in their own scope."""
    for statement in body:
        match statement:
            case nodes.Assign(target=target) | nodes.AssignBlock(target=target):
                names = [target, *target.find_all(nodes.Name)]
                yield from (name.name for name in names if isinstance(name, nodes.Name))
            case nodes.Macro(name=name):
                yield name
            case nodes.If():
                yield from _stored([*statement.body, *statement.elif_, *statement.else_])
