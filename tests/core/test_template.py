"""What a template's text, its variables and its arguments may be, before any renderer sees them."""

from __future__ import annotations

from typing import Any

import pytest

from sapwood.core.template import MAX_TEMPLATE_BYTES, TemplateId, argument_bytes, declared_variables, static_bytes
from sapwood.errors import InvalidArguments, InvalidTemplateId, TemplateLimit, TemplateNotStatic, TemplateSyntax


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "not a string"),
        (b"tpl.a.b", "not a string"),
        ("tpl." + "a" * 300, "304 characters, the limit is 256"),
        ("tpl." + ".".join("abcdefgh"), "more than 8 levels"),
        ("tpl." + ".".join("abcdefghi"), "wrong shape"),
        ("tpl.a", "wrong shape"),
    ],
)
def test_an_id_that_is_none_says_why(text: Any, why: str) -> None:
    with pytest.raises(InvalidTemplateId) as caught:
        TemplateId(text)
    assert caught.value.why == why


def test_a_family_is_bounded_by_segments() -> None:
    one = TemplateId("tpl.agent.discovery.prompt")
    families = ["tpl", "tpl.", "tpl.agent", "tpl.agent.", "tpl.agent.discovery", one.text]
    others = ["", ".", "t", "tpl.a", "tpl.agent.disc", f"{one}.x", "agent", "TPL", " tpl", "tpl.agent..discovery"]
    assert [prefix for prefix in [*families, *others] if one.is_in_family(prefix)] == families


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (None, None, "a template is text, not NoneType"),
        (b"x", None, "a template is text, not bytes"),
        ("\r", 1, "carriage return"),
        ("a\nb\r\nc", 2, "carriage return"),
        ("a\n\nb\ud800", 3, "lone surrogate"),
    ],
)
def test_a_text_that_cannot_be_kept_says_where(text: Any, line: int | None, why: str) -> None:
    with pytest.raises(TemplateNotStatic, match=why) as caught:
        static_bytes(text, "tpl.a.b")
    assert (caught.value.line, caught.value.template_id) == (line, "tpl.a.b")


def test_a_text_is_its_utf_8_bytes_up_to_the_limit() -> None:
    assert static_bytes("é\n\u2028\0") == "é\n\u2028\0".encode()
    assert len(static_bytes("x" * MAX_TEMPLATE_BYTES)) == MAX_TEMPLATE_BYTES
    for text in ("x" * (MAX_TEMPLATE_BYTES + 1), "é" * (MAX_TEMPLATE_BYTES // 2) + "x"):
        with pytest.raises(TemplateLimit, match=r"262145 bytes; the limit is 262144"):
            static_bytes(text)


def test_declared_names_are_sorted_and_each_stands_once() -> None:
    assert declared_variables("\n {#- variables: b, a,b -#}x", ("c", "a")) == ("a", "b", "c")
    assert declared_variables("{# other #}{# variables: a #}") == ()
    assert declared_variables("{# variables:  #}", iter(["é"])) == ("é",)


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a b", "a.b", None, 5, b"a"])
def test_what_cannot_be_the_name_of_a_variable_is_refused(name: Any) -> None:
    with pytest.raises(TemplateSyntax, match="cannot be the name of a variable") as caught:
        declared_variables("", [name])
    assert caught.value.line is None
    if name:
        with pytest.raises(TemplateSyntax, match="cannot be the name of a variable") as caught:
            declared_variables(f"\n{{# variables: a,\n b, \n a-{name} #}}")
        assert caught.value.line == 4


@pytest.mark.parametrize("wrong", [None, 5, "a", [("a", 1)]])
def test_arguments_are_a_mapping(wrong: Any) -> None:
    with pytest.raises(InvalidArguments, match="arguments are a mapping"):
        argument_bytes(wrong, ["a"])


def test_arguments_that_are_not_declared_are_named() -> None:
    wrong: dict[Any, Any] = {f"n{number:02}": 1 for number in range(12)}
    with pytest.raises(InvalidArguments, match=r"does not declare: 'n00', .* 'n09'$") as caught:
        argument_bytes({**wrong, "a": 1}, ["a"])
    assert caught.value.names == tuple(wrong)
    with pytest.raises(InvalidArguments, match="does not declare: '5'"):
        argument_bytes({5: 1}, ["5"])  # type: ignore[dict-item]
    assert argument_bytes({"b": 1.0, "a": None}, ["a", "b", "c"]) == b'{"a":null,"b":1}'
    with pytest.raises(InvalidArguments, match=r"\$\.a: nan is not a JSON number"):
        argument_bytes({"a": float("nan")}, ["a"])
