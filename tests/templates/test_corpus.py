"""Every case of the corpus gives the answer that stands in it, in the child process and, where that is safe, here."""

from __future__ import annotations

import copy
import re
import time

import pytest

import sapwood
from sapwood.core.template import TemplateId
from tests.templates.corpus import Case, cases, declared

OBJECT = re.compile(r"<[\w.]+ (object|at)|<(class|function|built-in|bound|module|generator|coroutine)|0x[0-9a-f]{6}")


def by_id(case: Case) -> str:
    return str(case["id"])


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("case", cases("control", "determinism", "syntax", "undefined"), ids=by_id)
def test_a_case_gives_its_answer(case: Case, trusted: bool) -> None:
    expected = {
        "error_syntax": sapwood.TemplateSyntax,
        "error_undefined": sapwood.UndefinedValue,
        "reject_registration": sapwood.TemplateSyntax,
    }

    def rendered() -> str:
        return sapwood.render_template(case["template"], case["args"], variables=declared(case), trusted=trusted)

    if case["expect"] == "render":
        assert rendered() == case["output"]
    else:
        with pytest.raises(expected[case["expect"]]):
            rendered()


@pytest.mark.parametrize("case", cases("resource"), ids=by_id)
def test_a_resource_bomb_stops_at_its_limit(case: Case) -> None:
    started = time.monotonic()
    try:
        text = sapwood.render_template(case["template"], case["args"], variables=declared(case))
    except sapwood.TemplateError:
        pass
    else:
        assert len(text) <= 2**20
    assert time.monotonic() - started < 8  # 1.5 s of processor time, on a busy machine
    assert sapwood.render_template("still {{ here }}", {"here": "here"}, variables=["here"]) == "still here"


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("case", cases("sandbox"), ids=by_id)
def test_nothing_escapes(case: Case, trusted: bool) -> None:
    before = copy.deepcopy(case["args"])
    try:
        text = sapwood.render_template(case["template"], case["args"], variables=declared(case), trusted=trusted)
    except sapwood.TemplateError:
        text = ""
    assert not OBJECT.search(text)
    assert case["args"] == before


@pytest.mark.parametrize("case", cases("static_id"), ids=by_id)
def test_a_static_id_is_accepted_or_refused(case: Case) -> None:
    if case["expect"] == "accept":
        assert TemplateId(case["static_id"]).text == case["static_id"]
    else:
        with pytest.raises(sapwood.InvalidTemplateId):
            TemplateId(case["static_id"])
