"""What the sandbox gives and what it refuses, also to live objects, which no argument can be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

import sapwood
from sapwood.templates import sandbox as sandbox_module
from sapwood.templates.render import Renderer
from sapwood.templates.sandbox import Sandbox


def render(text: str, **args: Any) -> str:
    return sapwood.render_template(text, args, variables=[*args, "nope"], trusted=True)


def live_objects() -> dict[str, Any]:
    def f() -> None: ...

    def g() -> Iterator[int]:
        yield 1

    async def c() -> None: ...

    async def x() -> AsyncIterator[int]:
        yield 1

    try:
        raise ValueError("live")
    except ValueError as error:
        e = error
    return {"f": f, "g": g(), "c": c(), "x": x(), "e": e}


@pytest.mark.parametrize(
    "text",
    ["{{ f.__code__ }}", "{{ g.gi_frame }}", "{{ c.cr_frame }}", "{{ x.ag_frame }}", "{{ e.__traceback__ }}"]
    + [f"{{{{ {name} }}}}" for name in "fgcxe"]
    + ["{{ f() }}{{ g }}", "{{ e.args.__class__ }}"],
)
def test_a_live_object_gives_nothing_away(text: str) -> None:
    objects = live_objects()
    box = Sandbox(10_000)
    with pytest.raises(SecurityError):
        box.compiled(box.parse(text)).render(objects)
    objects["c"].close()


def test_a_live_object_is_no_argument() -> None:
    with pytest.raises(sapwood.InvalidArguments):
        render("{{ f }}", f=render)


@pytest.mark.parametrize(
    "text",
    [
        "{{ n.items }}",
        "{{ [n.items] }}",
        "{{ n.items ~ '' }}",
        "{{ n.items|string }}",
        "{{ '%s' % n.items }}",
        "{{ '%r'|format(n.items) }}",
        "{{ '{}'.format(n.items) }}",
        "{{ [n.items]|join }}",
        "{{ {'a': n.items}|tojson }}",
        "{{ [n.items]|pprint }}",
        "{{ self }}",
        "{{ range }}",
        "{{ dict ~ '' }}",
        "{% macro m() %}{% endmacro %}{{ [m] }}",
        "{% for i in xs %}{{ loop|string }}{% endfor %}",
        "{{ 'a'.encode() }}",
        "{{ (0 - 1) ** 0.5 }}",
        "{{ ((0 - 1) ** 0.5) ~ '' }}",
        "{{ [(0 - 1) ** 0.5]|string }}",
        "{{ '{:n}'.format((0 - 1) ** 0.5) }}",
        "{{ '{:n}'.format(1) }}",
        "{{ 1 is sameas 1 }}",
        "{{ '\\ud800' }}",
    ],
)
def test_what_is_no_data_has_no_text(text: str) -> None:
    with pytest.raises(sapwood.TemplateForbidden):
        render(text, n={"a": 1}, xs=[1])


@pytest.mark.parametrize(
    "text",
    [
        "{{ [{}]|map(attribute='q')|list }}",
        "{{ [{}]|groupby('q') }}",
        "{{ [nope] }}",
        "{{ {'a': nope} }}",
        "{{ [nope]|pprint }}",
        "{{ nope|tojson }}",
        "{{ [nope]|tojson }}",
        "{{ [('a' if false)] }}",
        "{{ '%r'|format(nope) }}",
        "{{ nope ~ 'x' }}",
        "{{ [{}]|selectattr('q')|list }}",
        "{{ [{}]|sum(attribute='q') }}",
    ],
)
def test_what_is_undefined_never_becomes_text(text: str) -> None:
    with pytest.raises(sapwood.UndefinedValue):
        render(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ xs|map('upper') }}", "['A', 'B']"),
        ("{{ xs|batch(1) }}{{ xs|reverse }}{{ xs|unique }}", "[['a'], ['b']]['b', 'a']['a', 'b']"),
        ("{{ n.items() }}{{ n.keys() }}{{ n|items }}", "[('a', 1)]['a'][('a', 1)]"),
        ("{{ xs|groupby(0) }}{{ (xs|groupby(0))[0] }}", "[('a', ['a']), ('b', ['b'])]('a', ['a'])"),
        ("{% for x in xs %}{{ loop.cycle('1', '2') }}{{ x }}{% endfor %}", "1a2b"),
        ("{% for x in xs %}{% set o = loop %}{% for y in xs %}{{ o.index }}{% endfor %}{% endfor %}", "1122"),
        ("{% for x in [1, [2]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}", "12"),
        ("{% macro m(a) %}[{{ a }}{{ caller() }}]{% endmacro %}{% call m(1) %}x{% endcall %}", "[1x]"),
        ("{% block b %}x{% endblock %}{{ self.b() }}", "xx"),
        ("{{ '{0[a]} {k}'.format(n, k=2) }}{{ '{a}'.format_map(n) }}", "1 21"),
        ("{{ range(3) }}{{ range(2)|list }}{{ dict(z=1) }}", "range(0, 3)[0, 1]{'z': 1}"),
        ("{{ nope|default('d') }}{{ nope is defined }}{{ 'x' if false }}", "dFalse"),
        ("{{ none is sameas none }}{{ true is sameas false }}", "TrueFalse"),
        ("{{ '<b>' }}{{ '<b>'|e }}{{ '<'|tojson }}", '<b>&lt;b&gt;"\\u003c"'),
    ],
)
def test_what_a_template_can_do(text: str, expected: str) -> None:
    assert render(text, n={"a": 1}, xs=["a", "b"]) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x\n{% if false %}{{ xs|random }}{% endif %}", "no filter named 'random'"),
        ("x\n{{ 1 if false else xs is filter }}", "no test named 'filter'"),
        ("x\n{% import 'a' as b %}", "a template stands alone"),
        ("x\n{% include 'a' %}", "a template stands alone"),
        ("x\n{% if false %}{{ lipsum() }}{% endif %}", r"lipsum\(\) cannot be called"),
        ("x\n{% call nope() %}{% endcall %}", r"nope\(\) cannot be called"),
        ("x\n{% autoescape 9 ** 9 ** 9 ** 9 %}{% endautoescape %}", "autoescape takes true or false"),
        ("x\n{{ \uff4e }}", "Python reads it as 'n'"),
        ("x\n{% set \uff4e = 1 %}", "Python reads it as 'n'"),
        ("x\n{% macro \uff4e() %}{% endmacro %}", "Python reads it as 'n'"),
        ("x\n{% block \uff4e %}{% endblock %}", "Python reads it as 'n'"),
        ("x\n{{ dict(\uff4e=1) }}", "Python reads it as 'n'"),
        ("x\n{{ dict(a=1, a=2) }}", "'a' is given twice"),
        ("x\n{{ 'x'|replace('x', 'y', count=1, count=2) }}", "'count' is given twice"),
        ("x\n{% macro m(a, a) %}{% endmacro %}", "'a' is given twice"),
        ("{% macro m() %}{{ caller(1, 2) }}{% endmacro %}\n{% call(a, a) m() %}{% endcall %}", "'a' is given twice"),
        ("x\n{{ xs|map('random')|list }}", "no filter named 'random'"),
        ("x\n{% if false %}{% filter map('nope') %}{% endfilter %}{% endif %}", "no filter named 'nope'"),
        ("x\n{{ xs|select('callable')|list }}", "no test named 'callable'"),
        ("x\n{{ xs|reject('nope')|list }}", "no test named 'nope'"),
        ("x\n{{ xs|selectattr('a', 'nope')|list }}", "no test named 'nope'"),
        ("x\n{{ xs|rejectattr('a', 'nope')|list }}", "no test named 'nope'"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_is_rendered(text: str, reason: str) -> None:
    with pytest.raises(sapwood.TemplateSyntax, match=reason) as caught:
        render(text, xs=[])
    assert caught.value.line == 2


def test_what_python_cannot_say_is_a_mistake_in_the_text_and_no_limit() -> None:
    with pytest.raises(sapwood.TemplateSyntax, match="__debug__"):
        render("{{ dict(__debug__=1) }}")


def test_nothing_is_computed_while_a_template_is_compiled() -> None:
    Renderer().check(
        "{{ 1 / 0 }}{{ 'a' * 10 ** 12 }}{{ 'a'|center(10 ** 12) }}{% if 9 ** 9 ** 9 ** 9 %}{% endif %}", ()
    )


@pytest.mark.mutant
def test_without_the_strict_class_undefined_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module._Strict, "__repr__", lambda self: "Undefined")
    assert render("{{ [nope] }} fresh") == "[Undefined] fresh"


@pytest.mark.mutant
def test_without_the_wrapper_a_method_shows_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "_wrapped", lambda value: value)
    assert "0x" in render("{{ [n.items] }} fresh", n={})


@pytest.mark.mutant
def test_plain_jinja_computes_at_compile_time() -> None:
    plain = ImmutableSandboxedEnvironment()
    assert "'xxx'" in plain.compile("{{ 'x' * 3 }}", raw=True)
    box = Sandbox(10)
    assert "'xxx'" not in box.compile("{{ 'x' * 3 }}", raw=True)
