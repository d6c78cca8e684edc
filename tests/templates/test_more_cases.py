"""More cases of the kinds in the corpus: other ways out, other ways to use too much, other sources of difference."""

from __future__ import annotations

import time

import pytest

import sapwood
from sapwood.templates import mistakes
from tests.templates.corpus import declared
from tests.templates.test_corpus import OBJECT

ESCAPES = r"""
{{ [n]|map(attribute='__class__.__mro__')|list }}
{{ [n]|map('attr', '__class__')|list }}
{{ [n]|groupby('__class__') }}
{{ [n]|unique(attribute='__class__')|list }}
{{ [n]|sum(attribute='__class__') }}
{{ [n]|join(attribute='__class__') }}
{{ '{0.__class__.__mro__[1]}'.format('') }}
{{ '{0!r:{1.__class__}}'.format(1, n) }}
{{ '{0.format.__globals__}'.format('') }}
{{ ('{0.__class__}'|safe).format(n) }}
{{ ('{0.__class__}'|e).format_map({'0': n}) }}
{% set f = '{0.__class__}'.format %}{{ f(n) }}
{{ ('{0.__class__}'.format,)[0](n) }}
{% macro m(f) %}{{ f(n) }}{% endmacro %}{{ m('{0.__class__}'.format) }}
{{ '{0.__class__}'['for' ~ 'mat'](n) }}
{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}
{% macro m() %}{% endmacro %}{{ m._environment }}
{% macro m() %}{{ caller._func }}{% endmacro %}{% call m() %}x{% endcall %}
{% for x in xs %}{{ loop._iterator }}{% endfor %}
{% for x in xs %}{{ loop.__init__.__globals__ }}{% endfor %}
{{ self._TemplateReference__context }}
{{ self.__dict__ }}
{{ cycler.__init__.__globals__.os.popen('true').read() }}
{{ lipsum.__globals__['os'] }}
{{ request.application.__globals__ }}
{{ ().__class__.__bases__[0].__subclasses__() }}
{{ ''[['__cl', 'ass__']|join] }}
{{ ''['\x5f\x5fclass\x5f\x5f'] }}
{{ (nope|default).__class__ }}
{{ dict.mro() }}
{{ range.__self__ }}
{{ n.get.__self__ }}
{{ n.gi_frame }}
{{ n.tb_frame.f_globals }}
{{ ''.ｆormat }}
{% with a = ''.__class__ %}{{ a }}{% endwith %}
{% set x %}{{ ''.__class__ }}{% endset %}{{ x }}
{% include ['a', 'b'] ignore missing %}
{% from 'os' import path %}
{% set n.a = 5 %}
{% set xs[0] = 5 %}
{% do n.update({}) %}
{{ ([xs]|map(attribute='append')|first)(5) }}
{{ xs.sort() }}
{{ n.setdefault('z', 1) }}
{{ n.popitem() }}
{% set ns = namespace(f='{0.__class__}'.format) %}{{ ns.f(n) }}
{% set ns = namespace(n) %}{{ ns.__class__ }}
{% set ns = namespace() %}{% set ns.__class__ = n %}{{ ns.__class__ }}
{{ namespace().__init__.__globals__ }}
{{ namespace().__getattribute__('_Namespace__attrs') }}
{{ (cycler(n).next)()['__class__'] }}
{{ joiner(n)().__class__ }}{{ joiner().__call__.__globals__ }}
{{ [namespace(a=n)]|map(attribute='a.__class__')|list }}
{{ n['items':'b'] }}
""".strip().split("\n")

BOMBS = [
    "{{ 'a'.zfill(10**9) }}",
    "{{ '%1000000000d'|format(1) }}",
    "{{ '%*d' % (10**9, 1) }}",
    "{{ '{0:{1}}'.format('a', 10**9) }}",
    "{{ '{:.1000000000f}'.format(1.0) }}",
    "{{ 'a'|indent(10**9, true) }}",
    "{{ ('x' * 10**6)|replace('', 'y' * 10**6) }}",
    "{{ [1] * 10**9 }}",
    "{{ (range(99999)|list) * 99999 }}",
    "{{ ('\\t' * 100).expandtabs(10**9) }}",
    "{{ [[1]]|tojson(indent=10**9) }}",
    "{{ 'x' * 2**63 }}",
    "{{ range(10**18) }}",
    "{{ 1|round(-10**9) }}",
    "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    "{% set a = 'x' * 10**6 %}{% for i in range(99999) %}{{ a }}{% endfor %}",
    "{% for x in d recursive %}{{ loop(d) }}{% endfor %}",
    "{% block a %}{{ self.a() }}{% endblock %}",
    "{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "{{ d" + "|tojson" * 30 + " }}",
    "{{ 1" + "+1" * 20_000 + " }}",
    "{{ d" + ".b" * 20_000 + " }}",
    "{{ d" + "|upper" * 20_000 + " }}",
    "{{ " + "not " * 20_000 + "1 }}",
    "{{ " + "[" * 5_000 + "]" * 5_000 + " }}",
    "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set c = cycler('x' * 10**6) %}{% for i in range(99999) %}{{ c.next() }}{% endfor %}",
    "{% set j = joiner('x' * 10**6) %}{% for i in range(99999) %}{{ j() }}{% endfor %}",
    "{% for i in [1] %}" * 100 + "{% endfor %}" * 100,
]

VARYING = [
    "{{ {'b', 'a'} }}",
    "{{ [1, 2]|shuffle }}",
    "{{ lipsum() }}",
    "{{ now() }}",
    "{{ joiner() }}{{ shuffle(1) }}",
    "{{ 'a'|hash }}",
    "{% trans %}x{% endtrans %}",
    "{% debug %}",
]


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("text", ESCAPES)
def test_no_other_way_leads_out(text: str, trusted: bool) -> None:
    args = {"n": {"a": 1}, "xs": [2, 1]}
    with pytest.raises(sapwood.TemplateError) as caught:
        sapwood.render_template(text, args, variables=declared({"template": text, "args": args}), trusted=trusted)
    assert not OBJECT.search(str(caught.value))
    assert args == {"n": {"a": 1}, "xs": [2, 1]}


@pytest.mark.parametrize("text", BOMBS, ids=lambda text: text[:50])
def test_no_other_bomb_goes_off(text: str) -> None:
    args = {"d": {"b": "x" * 40}}
    started = time.monotonic()
    with pytest.raises(sapwood.TemplateLimit):
        sapwood.render_template(text, args, variables=declared({"template": text, "args": args}))
    assert time.monotonic() - started < 8
    assert sapwood.render_template("still here") == "still here"


@pytest.mark.parametrize("text", VARYING)
def test_what_would_vary_is_not_registered(text: str) -> None:
    with sapwood.open("memory:") as store:
        with pytest.raises(sapwood.TemplateSyntax):
            store.templates.register("tpl.agent.x", text, variables=declared({"template": text, "args": {}}))
        assert store.artifacts.list_versions() == []


@pytest.mark.mutant
def test_without_the_rule_about_calls_a_missing_function_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mistakes, "_called_variables", lambda tree: iter(()))
    with sapwood.open("memory:") as store:
        assert store.templates.register("tpl.agent.x", "mutant {{ now() }}", variables=["now"]).variables == ("now",)
