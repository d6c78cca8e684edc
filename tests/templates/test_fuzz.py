"""Random templates from pieces that have hurt before: none escapes, none hangs, none fails with an untyped error."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator

import pytest
from jinja2 import pass_context

import sapwood
from sapwood.templates import sandbox as sandbox_module
from sapwood.templates.limits import RenderLimits
from sapwood.templates.process import ChildRenderer
from sapwood.templates.render import Renderer
from sapwood.templates.sandbox import TESTS
from tests.conftest import Dose

NAMES = [
    "n",
    "xs",
    "s",
    "i",
    "f",
    "nope",
    "loop",
    "self",
    "caller",
    "range",
    "dict",
    "namespace",
    "cycler",
    "joiner",
    "m",
    "x",
]
ATTRIBUTES = [
    "__class__",
    "__init__",
    "__globals__",
    "__subclasses__",
    "__mro__",
    "__builtins__",
    "__dict__",
    "gi_frame",
    "cr_frame",
    "func_globals",
    "items",
    "keys",
    "values",
    "get",
    "format",
    "format_map",
    "encode",
    "join",
    "upper",
    "mro",
    "append",
    "update",
    "pop",
    "clear",
    "index",
    "count",
    "real",
    "imag",
    "a",
    "b",
    "_TemplateReference__context",
    "environment",
    "cycle",
    "index0",
    "__html__",
    "split",
    "replace",
    "ljust",
]
FILTERS = [
    "map('upper')",
    "map(attribute='a')",
    "map('attr','__class__')",
    "list",
    "string",
    "tojson",
    "pprint",
    "join(',')",
    "first",
    "last",
    "sort\nsort(attribute='a')",
    "groupby('a')",
    "batch(2)",
    "slice(2)",
    "unique",
    "reverse",
    "random",
    "attr('__class__')",
    "xmlattr",
    "default('d')",
    "length",
    "e\nformat(n)",
    "center(9)",
    "indent",
    "title",
    "urlize",
    "select('odd')",
    "reject",
    "selectattr('a')",
    "sum",
    "dictsort",
    "items",
    "round",
    "int",
    "float",
    "abs\ntruncate(3)",
    "wordwrap(2)",
    "replace('a','b')",
    "trim",
    "forceescape",
    "filesizeformat",
    "max",
    "min",
    "safe",
    "striptags",
    "urlencode",
]
FILTERS = [name for word in FILTERS for name in word.split("\n")]
LITERALS = [
    "1",
    "0",
    "2.5",
    "'a'",
    "'%s'",
    "'{0.__class__}'",
    "'{:n}'",
    "[]",
    "[1,'a']",
    "{'a':1}",
    "{(1,):1,('a',):2}",
    "namespace(a=1)",
    "cycler('a',1)",
    "joiner('a')",
    "1e999",
    "'\\d'",
    "none",
    "true",
    "''",
    "()",
]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "and", "or", "in", "==", "<", "is", "not in"]
RAW = [
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "-",
    "\n",
    "raw",
    "endraw",
    "\u202e",
    "\x00",
    "'",
    '"',
    "\\",
    "(",
    ")",
    "[",
    "]",
    "|",
]
LEAK = re.compile(
    r"<(class|function|module|built-in|bound method|generator|coroutine|method|slot wrapper|frame|code)\b"
    r"| object at |0x[0-9a-f]{8}|Undefined|jinja2|sapwood|subprocess|/usr/|root:x:"
)


class Fuzzer:
    """Writes one template after the other."""

    def __init__(self, rng: random.Random, powers: int) -> None:
        self.rng = rng
        self.powers = powers

    def template(self) -> str:
        self.is_wild = self.rng.random() < 0.3
        text = "".join(self.piece(3) for _ in range(self.rng.randrange(1, 6)))
        for _ in range(self.rng.choice([0, 0, 1, 3]) if self.is_wild else 0):
            place = self.rng.randrange(len(text) + 1)
            text = text[:place] + self.rng.choice(RAW) + text[place + self.rng.randrange(3) :]
        return text

    def name(self) -> str:
        return self.rng.choice(NAMES if self.is_wild else NAMES[:5])

    def filter(self) -> str:
        while True:
            name = self.rng.choice(FILTERS)
            if self.is_wild or not re.match(r"random|attr|xmlattr|urlize|map\('attr", name):
                return name

    def operator(self) -> str:
        return self.rng.choice(OPERATORS if self.is_wild else OPERATORS[:8])

    def tag(self) -> str:
        if not self.is_wild:
            return "{% raw %}{{ raw }}{% endraw %}"
        word = self.rng.choice(["include", "import", "extends", "autoescape", "do", "break"])
        return f"{{% {word} {self.value(1)} %}}"

    def piece(self, depth: int) -> str:
        if depth == 0:
            return self.rng.choice(["text ", "\n", f"{{{{ {self.value(1)} }}}}"])
        body = self.piece(depth - 1)
        value = self.value(3)
        return self.rng.choice(
            [
                f"{{{{ {value} }}}}",
                f"{{{{ {value} }}}}",
                f"{{% set m = namespace(a={value}) %}}{{% set m.a = {self.value(1)} %}}{body}{{{{ m.a }}}}",
                f"{{% set n.a %}}{body}{{% endset %}}{{{{ n.a }}}}",
                f"{{% if {value} %}}{body}{{% else %}}{self.piece(0)}{{% endif %}}",
                f"{{% for x in {value} %}}{body}{{{{ loop.index }}}}{{% endfor %}}",
                f"{{% for x in {value} recursive %}}{{{{ loop(x) }}}}{body}{{% endfor %}}",
                f"{{% set m = {value} %}}{body}",
                f"{{% set m %}}{body}{{% endset %}}{{{{ m }}}}",
                f"{{% macro m(a) %}}{body}{{% endmacro %}}{{{{ m({value}) }}}}",
                f"{{% macro m() %}}{{{{ caller({value}) }}}}{{% endmacro %}}{{% call(a) m() %}}{body}{{{{ a }}}}{{% endcall %}}",
                f"{{% filter {self.filter()} %}}{body}{{% endfilter %}}",
                f"{{% with x = {value} %}}{body}{{% endwith %}}",
                f"{{% block b{self.rng.randrange(10**6)} %}}{body}{{% endblock %}}",
                self.tag(),
                f"{{# {body} #}}",
            ]
        )

    def value(self, depth: int) -> str:
        if depth == 0:
            return self.rng.choice([self.name(), self.name(), self.rng.choice(LITERALS)])
        inner = f"({self.value(depth - 1)})"
        return self.rng.choice(
            [
                inner,
                f"{inner}.{self.rng.choice(ATTRIBUTES)}",
                f"{inner}['{self.rng.choice(ATTRIBUTES)}']",
                f"{inner}|{self.filter()}",
                f"({inner} {self.operator()} {self.value(depth - 1)})",
                f"{inner}({self.value(depth - 1)})" if self.is_wild else inner,
                f"{inner}.{self.rng.choice(ATTRIBUTES)}({self.value(0)})",
                f"[{inner}, {self.value(0)}]",
                f"{inner}[{self.value(0)}:{self.value(0)}:{self.value(0)}]",
                f"({inner} is {self.rng.choice(TESTS)})",
                f"{{'k': {inner}}}",
                f"({inner} if {self.value(0)})",
                f"{inner} * {10 ** self.rng.randrange(self.powers)}",
            ]
        )


ARGS = b'{"f":1.5,"i":3,"n":{"a":1,"b":{"c":"x"}},"s":"text","xs":[1,"a",{"a":2}]}'
VARIABLES = tuple(sorted({*NAMES, "a", "k"}))


def answers(
    renderer: ChildRenderer | Renderer, rng: random.Random, count: int, powers: int = 12
) -> Iterator[tuple[str, str]]:
    """Give (template, what is wrong with its answer), an empty text for nothing."""
    fuzzer = Fuzzer(rng, powers)
    for _ in range(count):
        template = fuzzer.template()
        started = time.monotonic()
        wrong = ""
        try:
            text = renderer.render(template, ARGS, VARIABLES)
        except sapwood.TemplateError as error:
            if "\n" in str(error):
                wrong = "an error of more than one line"
        except BaseException as error:
            wrong = f"untyped {error!r}"
            if isinstance(error, KeyboardInterrupt):
                raise
        else:
            leak = LEAK.search(text)
            if leak and leak[0] not in template:
                wrong = f"leaked {text[:200]!r}"
        if time.monotonic() - started > 30:
            wrong = "took more than 30 s"
        yield template, wrong


@pytest.mark.torture(short=300, full=100_000)
def test_fuzzed_templates_never_escape_hang_or_fail_untyped(dose: Dose) -> None:
    renderer = ChildRenderer(RenderLimits(cpu_s=0.5))
    rendered = 0
    for template, wrong in answers(renderer, dose.rng, dose.count):
        rendered += 1
        if wrong:
            dose.failures.append(f"{template!r}: {wrong}")
    renderer.close()
    assert rendered == dose.count


@pytest.mark.mutant
def test_the_fuzzer_finds_a_sandbox_that_lets_methods_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "_wrapped", lambda value: value)
    monkeypatch.setattr(sandbox_module, "_finalize", pass_context(lambda context, value: value))
    found = answers(Renderer(), random.Random(1), 5000, powers=3)
    assert any(wrong.startswith("leaked") for _, wrong in found)
