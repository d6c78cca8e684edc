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
from sapwood.templates.sandbox import FILTERS, FOR_MISSING, TESTS, Sandbox


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
        box.compiled(box.parse(text), objects).render(objects)
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
        "{{ namespace(a=1) }}",
        "{{ [namespace()] }}",
        "{{ namespace() ~ '' }}",
        "{{ namespace()|string }}",
        "{{ namespace()|tojson }}",
        "{{ namespace()|pprint }}",
        "{{ '%s' % namespace() }}",
        "{{ '{}'.format(namespace()) }}",
        "{{ {'a': namespace()} }}",
        "{{ namespace(a=xs.copy).a }}",
        "{{ namespace()._Namespace__attrs }}",
        "{{ namespace()['_Namespace__attrs'] }}",
        "{{ namespace()() }}",
        "{% set ns = namespace() %}{% set ns.__call__ = 'x'.upper %}{{ ns() }}",
        "{% set ns = namespace() %}{% set ns.jinja_pass_arg = 1 %}{{ ns() }}",
        "{% set n.a %}5{% endset %}",
        "{% call dict() %}x{% endcall %}",
        "{% call namespace() %}x{% endcall %}",
        "{{ cycler(1, 2) }}",
        "{{ cycler }}{{ cycler() }}",
        "{{ cycler(xs.copy).next() }}",
        "{{ cycler.__init__.__globals__ }}{{ cycler() }}",
        "{{ joiner() }}",
        "{{ [joiner()] }}",
        "{{ joiner().__init__ }}",
        "{% macro m() %}{% endmacro %}{{ [m] }}",
        "{% for i in xs %}{{ loop|string }}{% endfor %}",
        "{{ 'a'.encode() }}",
        "{{ (0 - 1) ** 0.5 }}",
        "{{ ((0 - 1) ** 0.5) ~ '' }}",
        "{{ [(0 - 1) ** 0.5]|string }}",
        "{{ '{:n}'.format((0 - 1) ** 0.5) }}",
        "{{ '{:n}'.format(1) }}",
        "{{ '{:5n}'.format(1) }}",
        "{{ 1 is sameas 1 }}",
        "{{ '\\ud800' }}",
    ],
)
def test_what_is_no_data_has_no_text(text: str) -> None:
    with pytest.raises(sapwood.TemplateForbidden) as caught:
        render(text, n={"a": 1}, xs=[1])
    assert caught.value.line in (1, None if "ud800" in text else 1)


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
        "{{ nope|items|list }}",
        "{{ [nope]|select('none')|list }}",
        "{{ [{}]|selectattr('q', 'none')|list }}",
        "{{ 'ab'|batch(2, nope) }}",
        "{{ '1'|int(base=nope) }}",
        "{{ 'a'|map('center', nope) }}",
        "{{ range(nope) }}",
        "{{ dict(a=nope) }}",
        "{{ namespace(a=nope) }}",
        "{{ nope|abs }}",
        "{{ 1.5|round(nope) }}",
        "{{ 'a'|replace('a', 'b', nope) }}",
        "{{ 'a'.split(nope) }}",
        "{{ 'ab'[nope:] }}",
        "{{ 'ab'[:nope] }}",
        "{{ 'ab'[::nope] }}",
        "{{ 'ab'[nope]|default('x') }}",
        "{{ '%*d' % (nope, 1) }}",
        "{{ '%d' % nope }}",
        "{{ '%(a)d' % {'a': nope} }}",
        "{{ ','.join([nope]) }}",
        "{{ nope in [] }}",
        "{{ nope not in 'abc' }}",
        "{{ nope not in [] }}",
        "{{ 1 < 2 in nope }}",
        "{{ nope is sameas none }}",
        "{% filter first %}{% endfilter %}",
        "{{ [] is in nope }}",
        *(f"{{{{ nope is {name} }}}}" for name in set(TESTS) - FOR_MISSING if name.isalpha()),
        *(f"{{{{ nope|{name} }}}}" for name in set(FILTERS) - FOR_MISSING),
    ],
)
def test_what_is_undefined_never_becomes_text(text: str) -> None:
    with pytest.raises(sapwood.UndefinedValue) as caught:
        render(text)
    assert "_missing" not in str(caught.value).lower()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ [nope, 1]|map('default', 5) }}", "[5, 1]"),
        ("{{ [nope, 1]|select('defined') }}{{ [nope, 1]|reject('undefined') }}", "[1][1]"),
        ("{{ rows|selectattr('q', 'defined') }}{{ rows|map(attribute='q', default=1) }}", "[][1, 1]"),
        ("{{ rows|selectattr('a') }}{{ rows|rejectattr('a', 'none') }}", "[{'a': 1}][{'a': 1}]"),
        ("{{ rows|map(attribute='q')|map('default', 2)|sum }}{{ rows|map(attribute='a')|join(',') }}", "41,None"),
        ("{% macro m(a) %}{{ a|default('m') }}{% endmacro %}{{ m(nope) }}{{ m() }}", "mm"),
        ("{% macro m() %}{{ caller(nope) }}{% endmacro %}{% call(a) m() %}{{ a is defined }}{% endcall %}", "False"),
        ("{{ ('a' if false)|upper }}{{ ('a' if false) in ['b'] }}", "False"),
        (
            "{{ 1 < 2 in [2] }}{{ 1 in [1] in [[1]] }}{{ 'abc'[1:] }}{{ [1, 2, 3][::-1][:1] }}{{ 'ab'[-1] }}",
            "TrueTruebc[3]b",
        ),
    ],
)
def test_where_a_template_allows_for_it_a_value_may_be_missing(text: str, expected: str) -> None:
    assert render(text, rows=[{"a": 1}, {"a": None}]) == expected


@pytest.mark.mutant
def test_without_the_strict_filters_and_tests_a_missing_value_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "_refuse_missing", lambda values: None)
    assert render("{{ nope|items|list }}{{ nope is none }} fresh") == "[]False fresh"


@pytest.mark.mutant
def test_without_the_look_before_in_a_missing_value_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "given", lambda self, value: value)
    assert render("{{ nope in [] }} fresh") == "False fresh"


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
        ("{% set ns = namespace(n='') %}{% for x in xs %}{% set ns.n = ns.n ~ x %}{% endfor %}{{ ns.n }}", "ab"),
        (
            "{% set ns = namespace(n) %}{% set ns.b %}c{% endset %}{{ ns.a }}{{ ns.b }}{{ [ns]|map(attribute='a') }}",
            "1c[1]",
        ),
        (
            "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.items }}",
            "abba('a', 'b')",
        ),
        ("{% set j = joiner(';') %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %}{{ joiner()() ~ '' }}", "a;b"),
        ("{% set ns = namespace(j=joiner('-')) %}{{ ns.j() }}1{{ ns.j() }}2", "1-2"),
        ("{{ namespace|default('d') }}{{ cycler is defined }}{{ joiner is defined }}", "dFalseFalse"),
        (r"{{ '\d\777\\é\'' }}", r"\dǿ\é'"),
        ("{{ nope|default('d') }}{{ nope is defined }}{{ 'x' if false }}", "dFalse"),
        ("{% filter length %}abc{% endfilter %}{% filter list %}ab{% endfilter %}", "3['a', 'b']"),
        ("{% macro m() %}{% filter wordcount %}a b{% endfilter %}{% endmacro %}{{ m() }}", "2"),
        ("{% set a | replace('x', xs[0]) %}xy{% endset %}{{ a }}{% set a | length %}xy{% endset %}{{ a + 1 }}", "ay3"),
        ("{% for x in xs %}{% set y | replace('_', x)|center(n.a + 2) %}_{% endset %}{{ y }}{% endfor %}", " a  b "),
        ("{{ none is sameas none }}{{ true is sameas false }}", "TrueFalse"),
        ("{{ '<b>' }}{{ '<b>'|e }}{{ '<'|tojson }}", '<b>&lt;b&gt;"\\u003c"'),
        ("{{ dict(z=1, a={'y': 1, 'b': 2})|tojson }}", '{"a": {"b": 2, "y": 1}, "z": 1}'),
        ("{{ ('<b>%s'|safe) % '<' }}{{ ('<b>{}'|safe).format('<') + '>' }}", "<b>&lt;<b>&lt;&gt;"),
        ("{{ ('{a[0]:>2}'|safe).format_map({'a': '<'}) }}{{ '{}'.format('<' + '<'|safe) }}", " &lt;&lt;<"),
    ],
)
def test_what_a_template_can_do(text: str, expected: str) -> None:
    declared = ["n", "xs", "nope", *({"namespace", "cycler", "joiner"} if "is defined" in text else ())]
    assert (
        sapwood.render_template(text, {"n": {"a": 1}, "xs": ["a", "b"]}, variables=declared, trusted=True) == expected
    )


def test_a_variable_may_have_the_name_of_a_function() -> None:
    text = "{{ namespace|default('none') }}{{ range }}"
    assert sapwood.render_template(text, {"range": 5}, variables=["namespace", "range"], trusted=True) == "none5"
    assert sapwood.render_template("{{ range(2) }}", variables=["range"], trusted=True) == "range(0, 2)"


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
        ("x\n{{ xs[1:2, 3] }}", "a slice such as 1:2 stands alone"),
        ("x\n{{ [1e999] }}", "too large for a float"),
        ("x\n{{ dict(__debug__=1) }}", "'__debug__' cannot be the name of an argument"),
        ("x\n{{ 'a'|default(__debug__=1) }}", "'__debug__' cannot be the name of an argument"),
        ("x\n{% for x in xs %}{{ dict(_loop_vars=1) }}{% endfor %}", "'_loop_vars' cannot be"),
        ("x\n{% block b %}{{ dict(_block_vars=1) }}{% endblock %}", "'_block_vars' cannot be"),
        ("{% macro m() %}{% endmacro %}\n{% call m(caller=1) %}{% endcall %}", "'caller' is what the call block gives"),
        ("x\ny{#", "a comment that is not closed"),
        ("x\ny{#-", "a comment that is not closed"),
        ("x\n{% raw %}", "a raw block that is not closed"),
        ("x\n{% raw -%}\n ", "a raw block that is not closed"),
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


def test_what_is_closed_is_no_mistake() -> None:
    assert render("a{# b #}{##}{% raw %}{% endraw %}{% raw %}{#{% endraw %}") == "a{#"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", [r"{{ '\d' }}", "{% if 0 %}{{ 1[0:2] }}{% endif %}x", "{{ 'a' if 0 else 'b'[0:1] }}"])
def test_python_has_no_warning_about_a_template(text: str) -> None:
    render(text)


def test_a_text_is_stopped_while_it_grows_too_long() -> None:
    taken = 0

    def chunks() -> Iterator[str]:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield "x"

    with pytest.raises(sandbox_module.OutputTooLong):
        Sandbox(10).concat(chunks())
    assert taken < 100


def test_nothing_is_computed_while_a_template_is_compiled() -> None:
    Renderer().check(
        "{{ 1 / 0 }}{{ 'a' * 10 ** 12 }}{{ 'a'|center(10 ** 12) }}{% if 9 ** 9 ** 9 ** 9 %}{% endif %}", ()
    )


@pytest.mark.mutant
def test_without_the_strict_class_undefined_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module._Missing, "__repr__", lambda self: "Undefined")
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
