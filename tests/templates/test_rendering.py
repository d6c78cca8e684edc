"""Arguments, declarations and limits of `render_template`, and that a rendering is the same everywhere."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import nodes

import sapwood
from sapwood.core.template import MAX_ARGS_BYTES, MAX_TEMPLATE_BYTES, argument_bytes, declared_variables
from sapwood.templates.limits import RenderLimits
from sapwood.templates.render import Renderer
from sapwood.templates.rendering import Rendering

both = pytest.mark.parametrize("trusted", [True, False])


@both
def test_arguments_are_rendered_as_their_canonical_json_says(trusted: bool) -> None:
    args = {"f": 1.0, "d": {"b": 1, "a": -0.0}, "t": (1, 2), "big": 2**70}
    text = sapwood.render_template("{{ f }} {{ d }} {{ t }} {{ big }}", args, variables=args, trusted=trusted)
    assert text == f"1 {{'a': 0, 'b': 1}} [1, 2] {2**70}"


@both
def test_an_undeclared_variable_is_an_unresolved_placeholder(trusted: bool) -> None:
    with pytest.raises(sapwood.UndeclaredVariable, match="unresolved placeholder b, c") as caught:
        sapwood.render_template("{{ a }}\n{{ b }}{{ c }}", {"a": 1}, variables=["a"], trusted=trusted)
    assert (caught.value.line, caught.value.names) == (2, ("b", "c"))


@both
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{% for a in [1] %}{{ a }}{% endfor %}\n\n{{ a }}", 3),
        ("{% with a = 1 %}{{ a }}{% endwith %}\n{{ a }}{{ a }}", 2),
        ("{% macro m(b) %}{{ caller() }}{% endmacro %}{% call m(\na) %}x{% endcall %}", 2),
        ("{% macro m(b=\na) %}{{ b }}{% endmacro %}{{ m(1) }}", 2),
        ("{% with a = 1, b =\na %}{{ b }}{% endwith %}", 2),
        ("{% autoescape true %}{% set a = 1 %}{% endautoescape %}\n{{ a }}", 2),
        ("{% macro m(a) %}{{ a }}{% endmacro %}\n{% block b %}\n{{ a }}{% endblock %}\n{{ a }}", 3),
        ("{% if 1 %}{% set a = 1 %}{% endif %}\n{{ a }}", 2),
        ("{% if 1 %}{% set a = 1 %}{% else %}\n{{ a }}{% endif %}", 2),
        ("{% if 1 %}\n{% set a = a %}{% else %}{% set a = 1 %}{% endif %}", 2),
        ("{% for b in [1] %}{% set a = b %}{% endfor %}\n{{ a }}", 2),
        ("{% for b in [1] %}{% set a = b %}{% block c %}\n{{ a }}{% endblock %}{% endfor %}", 2),
        ("{% set a %}\n{{ a }}{% endset %}", 2),
        ("{% filter upper %}\n{{ a }}{% endfilter %}{% set a = 1 %}", 2),
        ("x\n{% set a.b = 1 %}", 2),
    ],
)
def test_the_line_of_a_placeholder_is_where_it_is_unresolved(text: str, line: int, trusted: bool) -> None:
    with pytest.raises(sapwood.UndeclaredVariable, match="unresolved placeholder a:") as caught:
        sapwood.render_template(text, {}, trusted=trusted)
    assert caught.value.line == line


@both
def test_a_loop_has_ended_where_its_else_begins(trusted: bool) -> None:
    with pytest.raises(sapwood.UndeclaredVariable, match="unresolved placeholder loop:"):
        sapwood.render_template("{% for x in [] %}{% else %}{{ loop.index }}{% endfor %}", trusted=trusted)


@both
@pytest.mark.parametrize(
    "text",
    [
        "{% if t %}{% set a = 1 %}{{ a }}{% endif %}",
        "{% if t %}{% set a = 1 %}{% else %}{% set a = 2 %}{% endif %}{{ a }}",
        "{% if not t %}{% set a = 0 %}{% elif t %}{% set a = 1 %}{% else %}{% set a = 2 %}{% endif %}{{ a }}",
        "{% for x in [1] %}{% if x %}{% set a = x %}{{ a }}{% endif %}{% endfor %}",
        "{% if t %}{% set a %}1{% endset %}{% for x in [t] %}{{ a }}{% endfor %}{% endif %}",
        "{% if t %}{% set a = namespace(b=0) %}{% set a.b = 1 %}{{ a.b }}{% endif %}",
        "{% if t %}{% macro a(x) %}{{ x }}{% endmacro %}{{ a(1) }}{% endif %}",
        "{% if t %}{% set a = 5 %}{% endif %}1",
        "{% macro m() %}{{ a }}{% endmacro %}{% set a = 1 %}{{ m() }}",
        "{% macro m(x) %}{% if x %}{{ n() }}{% endif %}{% endmacro %}{% macro n() %}1{{ m(0) }}{% endmacro %}{{ m(1) }}",
        "{% macro m(x, y=a) %}{{ y }}{% endmacro %}{% if t %}{% set a = 1 %}{{ m(0) }}{% endif %}",
        "{% macro m() %}{{ caller(1) if caller and not varargs and not kwargs }}{% endmacro %}"
        "{% call(a) m() %}{{ a }}{% endcall %}",
        "{% macro m() %}{{ caller() }}{% endmacro %}{% macro n() %}{% call m() %}{{ a }}{% endcall %}{% endmacro %}"
        "{% set a = 1 %}{{ n() }}",
        "{% set a = 1 %}{% block b %}{{ a }}{% endblock %}",
        "{% for a in [1] %}{% block b scoped %}{{ a }}{% endblock %}{% endfor %}",
        "{% filter replace('x', a) %}{% set a = '1' %}x{% endfilter %}",
        "{% set b | replace('x', a) %}{% set a = '1' %}x{% endset %}{{ b }}",
        "{% with a = 1, b = t %}{% filter upper %}{{ a }}{% endfilter %}{% endwith %}",
        "{% for (a, b), c in [((1, 2), 3)] if a %}{{ a }}{% else %}{{ t }}{% endfor %}",
    ],
)
def test_what_the_text_itself_sets_is_no_placeholder(text: str, trusted: bool) -> None:
    assert sapwood.render_template(text, {"t": True}, variables=["t"], trusted=trusted) == "1"


@both
def test_an_undeclared_argument_is_refused(trusted: bool) -> None:
    with pytest.raises(sapwood.InvalidArguments, match="'b'"):
        sapwood.render_template("{{ a }}", {"a": 1, "b": 2}, variables=["a"], trusted=trusted)


@both
@pytest.mark.parametrize("value", [float("nan"), {1}, b"x", {1: 2}, "\ud800", 10**5000], ids=range(6))
def test_an_argument_that_is_no_json_is_refused(value: object, trusted: bool) -> None:
    with pytest.raises(sapwood.InvalidArguments):
        sapwood.render_template("{{ a }}", {"a": value}, variables=["a"], trusted=trusted)


@both
def test_any_text_is_rendered_and_names_that_are_none_are_refused(trusted: bool) -> None:
    class Text(str):
        __slots__ = ()

    wrong: Any = 5
    assert sapwood.render_template(Text("{{ 1 }}"), trusted=trusted) == "1"
    with pytest.raises(sapwood.InvalidArguments, match="variables are names, not int"):
        sapwood.render_template("x", variables=wrong, trusted=trusted)
    with pytest.raises(
        sapwood.InvalidArguments, match="variables are names, not one text, 'name'; write them as a list"
    ):
        sapwood.render_template("{{ n }}", {"n": 1}, variables="name", trusted=trusted)


def test_arguments_are_looked_up_and_not_searched_for() -> None:
    assert argument_bytes({"b": 1, "a": 2}, iter(["a", "b"])) == b'{"a":2,"b":1}'  # a search would use it up


def test_the_lines_of_placeholders_take_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[Any] = []
    find_all = nodes.Template.find_all

    def counted(self: nodes.Template, kind: Any) -> Any:
        passes.append(kind)
        return find_all(self, kind)

    monkeypatch.setattr(nodes.Template, "find_all", counted)
    counts = []
    for count in (2, 20):
        passes.clear()
        text = "".join(
            f"{{% if 1 %}}{{% set a{number} = 1 %}}{{% endif %}}{{{{ a{number} }}}}\n" for number in range(count)
        )
        with pytest.raises(sapwood.UndeclaredVariable) as caught:
            Renderer().check(text, ())
        assert caught.value.line == 1
        counts.append(len(passes))
    assert counts[0] == counts[1]


@both
def test_the_leading_comment_declares_variables(trusted: bool) -> None:
    text = "{# variables: who, what -#}\n{{ who }} {{ what }}"
    assert sapwood.render_template(text, {"who": "a", "what": "b"}, trusted=trusted) == "a b"
    assert declared_variables(text, ["z"]) == ("what", "who", "z")
    assert declared_variables("{# variables: #}") == ()
    with pytest.raises(sapwood.WrongArgument, match="argument text is 5; expected the text of a template"):
        declared_variables(5)  # type: ignore[arg-type]
    assert declared_variables("x {# variables: a #}") == ()
    assert declared_variables("{#+ variables: a +#}") == declared_variables("{#- variables: a -#}") == ("a",)
    assert sapwood.render_template("\ufeff" + text, {"who": "a", "what": "b"}, trusted=trusted) == "\ufeffa b"
    with pytest.raises(sapwood.TemplateSyntax, match="'a-b'") as caught:
        declared_variables("\n{# variables: a,\n a-b #}")
    assert caught.value.line == 3


@both
@pytest.mark.parametrize("text", ["a\r\nb", "a\rb", "a\ud800"])
def test_a_text_that_rendering_would_change_is_refused(text: str, trusted: bool) -> None:
    with pytest.raises(sapwood.TemplateNotStatic):
        sapwood.render_template(text, trusted=trusted)


@both
def test_sizes_have_limits(trusted: bool) -> None:
    render = sapwood.render_template
    assert len(render("x" * MAX_TEMPLATE_BYTES, trusted=trusted)) == MAX_TEMPLATE_BYTES
    with pytest.raises(sapwood.TemplateLimit, match="262145 bytes"):
        render("x" * (MAX_TEMPLATE_BYTES + 1), trusted=trusted)
    with pytest.raises(sapwood.TemplateLimit, match="262146 bytes"):
        render("é" * (MAX_TEMPLATE_BYTES // 2 + 1), trusted=trusted)
    fits = "x" * (MAX_ARGS_BYTES - len('{"a":""}'))
    assert render("{{ a|length }}", {"a": fits}, variables=["a"], trusted=trusted) == str(len(fits))
    with pytest.raises(sapwood.TemplateLimit, match="bytes of arguments"):
        render("{{ a|length }}", {"a": fits + "x"}, variables=["a"], trusted=trusted)
    assert len(render("{{ 'x' * 1048576 }}", trusted=trusted)) == 2**20
    for text in ("{{ 'x' * 1048577 }}", "{{ 'é' * 524289 }}", "{% for i in range(2) %}{{ 'x' * 600000 }}{% endfor %}"):
        with pytest.raises(sapwood.TemplateLimit, match="bytes of rendered text"):
            render(text, trusted=trusted)


@both
@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        ("a\n{{ 1 / 0 }}", sapwood.TemplateFailed, 2),
        ("a\n\n{{ nope }}", sapwood.UndefinedValue, 3),
        ("a\n{% if %}", sapwood.TemplateSyntax, 2),
        ("{% macro m() %}\n{{ ''.__class__ }}\n{% endmacro %}\n{{ m() }}", sapwood.TemplateForbidden, 2),
        ("{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}", sapwood.TemplateLimit, 1),
        ("{{ " + "(" * 4000 + ")" * 4000 + " }}", sapwood.TemplateLimit, 1),
        ("a\n{{ " + "(" * 300 + "1" + ")" * 300 + " }}", sapwood.TemplateLimit, 2),
        ("{% if 1 %}" * 150 + "{% endif %}" * 150, sapwood.TemplateLimit, 1),
        ("a\n{{ x }}\n" + "{% if 1 %}" * 120 + "{{ 1 < 2 }}" + "{% endif %}" * 120, sapwood.TemplateLimit, 3),
        ("a\n{{ 1" + "+1" * 5_000 + " }}", sapwood.TemplateLimit, 2),
        ("{{ 'a' + 1 }}", sapwood.TemplateFailed, 1),
        ("{{ (1e308 * 10)|int }}", sapwood.TemplateFailed, 1),
        ("{{ range(10 ** 6) }}", sapwood.TemplateLimit, 1),
        ("{{ [1]|sum(start=[]) }}", sapwood.TemplateFailed, 1),
        ("{{ '%d'|format('x') }}", sapwood.TemplateFailed, 1),
        ("\n{{ " + "9" * 5000 + " }}", sapwood.TemplateLimit, 2),
        ("\n{{ 0x" + "f" * 5000 + " }}", sapwood.TemplateLimit, 2),
        ("\n{{ 10 ** 5000 }}", sapwood.TemplateLimit, 2),
        ("\n{{ 'a'.encode('\\ud800') }}", sapwood.TemplateFailed, 2),
        ("{{ '{0!\n}'.format(1) }}", sapwood.TemplateFailed, 2),
        ("{{ '{0!\\ud800}'.format(1) }}", sapwood.TemplateFailed, 1),
        ("{{ {}['x' * 10 ** 6] }}", sapwood.UndefinedValue, 1),
    ],
)
def test_every_failure_is_one_typed_error(
    text: str, kind: type[sapwood.TemplateError], line: int | None, trusted: bool
) -> None:
    rendering = Rendering()
    with pytest.raises(kind) as caught:
        rendering.render(text, b"{}", ("nope", "x"), "tpl.a.b", trusted=trusted)
    rendering.close()
    error = caught.value
    assert (error.template_id, error.line) == ("tpl.a.b", line)
    assert error.cause.isprintable()
    assert len(error.cause) <= 1001
    assert "\n" not in str(error)
    assert str(error).startswith("template tpl.a.b")


@both
@pytest.mark.parametrize("text", ["{{ 2.0 ** 5000 }}", "{{ 2 ** 5000.0 }}"])
def test_a_number_that_is_too_large_is_told_in_words(text: str, trusted: bool) -> None:
    with pytest.raises(sapwood.TemplateLimit) as caught:
        sapwood.render_template(text, trusted=trusted)
    assert caught.value.cause == os.strerror(errno.ERANGE)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(args=st.dictionaries(st.sampled_from(["a", "b", "c"]), json_values, min_size=3), static=st.text(max_size=20))
def test_both_ways_give_the_same_bytes(args: dict[str, object], static: str) -> None:
    static = static.replace("\r", "").replace("{", "").replace("\\", "")
    text = "{{ a }}{% for x in [b, c] %}{{ loop.index }} {{ x|tojson }} {{ [x] }}{% endfor %}\n" + static
    here = sapwood.render_template(text, args, variables=args, trusted=True)
    assert here == sapwood.render_template(text, args, variables=args, trusted=False)
    assert here.endswith("\n" + static)


SCRIPT = """
import locale, sapwood, sys
try: locale.setlocale(locale.LC_ALL, "")
except locale.Error: pass
args = {"d": {"zeta": 1, "ä": [1.5, 2e-7, True, None], "a": {"y": 1, "x": 2}}, "words": ["b", "É", "a", "b"], "n": 1234567.891}
text = '''{{ d }}{% for k, v in d.items() %}{{ k }}={{ v|tojson }};{% endfor %}
{{ words|unique|sort }}{{ words|groupby(0) }}{{ words|map("upper")|join(",") }}{{ "{:,.2f}".format(n) }}{{ n|round(1) }}
{{ d|dictsort }}{{ "%.3f"|format(n) }}{{ n|filesizeformat }}{{ d|pprint }}{{ words|join(" ")|title|wordwrap(3) }}
{{ {(1,): 1, ("a",): 2, (none,): 3, (2.5,): 4, ("b",): 5, ((),): 6, (n,): 7, (words[0], n): 8}|pprint }}'''
for trusted in (True, False):
    sys.stdout.buffer.write(sapwood.render_template(text, args, variables=args, trusted=trusted).encode())
"""


@pytest.mark.artifacts_templates
def test_another_process_hash_seed_locale_and_timezone_give_the_same_bytes() -> None:
    outputs = set()
    for seed, language, zone in [
        ("0", "C", "UTC"),
        ("1", "de_DE.UTF-8", "Asia/Kathmandu"),
        ("4242", "tr_TR.UTF-8", "America/St_Johns"),
    ]:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": language, "TZ": zone, "PYTHONUTF8": "1"}
        done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, check=True)
        half = len(done.stdout) // 2
        assert done.stdout[:half] == done.stdout[half:]
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert len(outputs.pop()) > 400


@both
def test_keys_that_have_no_order_are_laid_out_as_they_stand(trusted: bool) -> None:
    text = "{{ {(1,): 1, ('a',): 2, (none,): 3, ('b',): 5}|pprint }}{{ {'b': 1, 'a': 2}|pprint }}{{ d|pprint }}"
    rendered = sapwood.render_template(text, {"d": {"z": 1, "y": [1]}}, variables=["d"], trusted=trusted)
    assert rendered == "{(1,): 1, ('a',): 2, (None,): 3, ('b',): 5}{'b': 1, 'a': 2}{'y': [1], 'z': 1}"


def test_what_the_environment_says_about_integers_changes_no_rendering() -> None:
    script = """
import sapwood
try: print(sapwood.render_template("{{ (10 ** 4400)|string|length }}", trusted=True))
except sapwood.TemplateLimit as error: print(error)
print(sapwood.render_template("{{ (10 ** 4000)|string|length }}", trusted=True))
"""
    for digits in ("0", "640", "4300"):
        environment = {**os.environ, "PYTHONINTMAXSTRDIGITS": digits}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout == "template, line 1: an integer of more than 4300 digits has no text\n4001\n"


@pytest.mark.mutant
def test_without_canonical_arguments_the_order_would_be_the_callers() -> None:
    rendering = Rendering()
    assert rendering.render("{{ d }}", b'{"d":{"b":1,"a":2}}', ("d",), trusted=True) == "{'b': 1, 'a': 2}"
    assert (
        sapwood.render_template("{{ d }}", {"d": {"b": 1, "a": 2}}, variables=["d"], trusted=True) == "{'a': 2, 'b': 1}"
    )


@pytest.mark.mutant
def test_without_the_output_limit_the_text_grows() -> None:
    rendering = Rendering(RenderLimits(output_bytes=2**30))
    assert len(rendering.render("{{ 'x' * 1048577 }}", b"{}", (), trusted=True)) == 2**20 + 1
