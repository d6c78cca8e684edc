"""What the fence parser promises beyond the corpus: it is total, linear, and accounts for every backtick fence."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import parse_fences
from sapwood.core import fences

PIECES = st.one_of(
    st.sampled_from(
        ["```", "````", "~~~", "`", " ", "    ", "\n", "\r\n", "\r", "x", "é", "\u2028", "\ufeff", "\ud800", "\x00"]
    ),
    st.sampled_from(["python", "file=a.py", " file=b/c.txt", "```py file=a\nx\n```\n"]),
    st.sampled_from(["<<<BEGIN>>>\n", "<<<END>>>\n", "ALPHRED_UPSTREAM_ARTIFACT v1\n"]),
)


@given(st.lists(PIECES, max_size=60).map("".join))
def test_any_text_gives_dense_indexes_and_a_reason_for_each_block_that_is_not_a_file(document: str) -> None:
    blocks = parse_fences(document)
    assert [block.index for block in blocks] == list(range(len(blocks)))
    for block in blocks:
        assert (block.reason == "") == (block.status == "written")
        assert block.content in document


@given(
    st.text(alphabet="ab`~ \r\u2028é", max_size=40).map(lambda text: re.sub(r"(?m)^ {0,3}`{3,}[ \t]*\r?$", "", text))
)
def test_a_body_comes_back_byte_for_byte(line: str) -> None:
    body = f"{line}\n"
    (block,) = parse_fences(f"```text file=a\n{body}```\n")[:1]
    assert block.content == body


@pytest.mark.parametrize(
    ("header", "reason", "declared"),
    [
        ("```", "missing_lang", ""),
        ("``` file=a", "missing_lang", "a"),
        ("```python", "missing_file", ""),
        ("```python  file=a", "format", "a"),
        ("```python\tfile=a", "format", "a"),
        ("```python file =a", "bad_key", ""),
        ("```python FILE=a", "bad_key", ""),
        ("```python file=", "empty_path", ""),
        ("```python file= ", "empty_path", ""),
        ("```python file=a\t", "trailing_space", "a"),
        ("```python file=a\tb", "whitespace_in_path", "a\tb"),
        ('```python file=a"', "quoted", 'a"'),
        ("  ````python file=a", "fence_length", "a"),
        ("   ```python file=a", "indented", "a"),
    ],
)
def test_the_first_check_that_fails_names_the_reason(header: str, reason: str, declared: str) -> None:
    (block,) = parse_fences(f"{header}\nx\n{header.strip().split('p')[0].split(' ')[0]}\n")
    assert (block.reason, block.declared_file, block.status) == (reason, declared, "skipped")


def test_an_echoed_envelope_is_quoted_only_from_its_begin_to_its_end() -> None:
    head = "ALPHRED_UPSTREAM_ARTIFACT v1\n" + "x\n" * 19
    block = "```py file=a\n```\n"
    document = f"{head}<<<BEGIN>>>\n{block}<<<END>>>\n{block}<<<BEGIN>>>\n{block}"
    assert [found.reason for found in parse_fences(document)] == ["quoted_upstream", "", ""]
    assert [found.reason for found in parse_fences("x\n" + document)] == ["quoted_upstream", "", ""]
    too_far = document.replace("x\n", "x\nx\n", 1)
    assert [found.reason for found in parse_fences(too_far)] == ["", "", ""]


def test_whatever_stands_inside_an_outer_block_is_its_content() -> None:
    inner = "```py file=a\nx\n```\n"
    assert parse_fences(f"~~~\n{inner}~~~\n") == []
    (outer,) = parse_fences(f"````\n{inner}````\n")
    assert (outer.reason, outer.content) == ("fence_length", inner)


SHAPES = {
    "200,000 fences": lambda n: "```python file=a.py\nx\n```\n" * n,
    "a line of 1 MB": lambda n: "x" * (5 * n) + "\n```py file=" + "a" * (5 * n) + "\n```\n",
    "1 MB of backticks": lambda n: "`" * (5 * n) + "\n" + "`" * (5 * n),
    "openers that never close": lambda n: "````py\n```py file=a\n" * n,
    "envelope edges": lambda n: "<<<BEGIN>>>\n<<<END>>>\n" * n,
    "begins without a head": lambda n: "<<<BEGIN>>>\n" * n,
    "heads and begins": lambda n: "ALPHRED_UPSTREAM_ARTIFACT v1\n<<<BEGIN>>>\n<<<END>>>\n" * n,
    "a header of many words": lambda n: "```py " + "a=b " * n + "\n```\n",
    "spaces": lambda n: (" " * 50 + "\n") * n,
}


def seconds(document: str) -> float:
    started = time.process_time()
    parse_fences(document)
    return time.process_time() - started


def check_growth(shape: str, count: int) -> None:
    small = min(seconds(SHAPES[shape](count)) for _ in range(3))
    large = min(seconds(SHAPES[shape](8 * count)) for _ in range(2))
    assert large < 8 * small * 4 + 0.05, f"8 times the text took {large / small:.0f} times as long"


@pytest.mark.parametrize("shape", SHAPES)
def test_time_grows_with_the_length_and_no_faster(shape: str) -> None:
    check_growth(shape, 25_000)


@pytest.mark.mutant
def test_a_parser_whose_blocks_cost_more_and_more_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = fences._closed

    def slower(index: int, fence: fences._Open, content: str) -> fences.Block:
        sum(range(index))
        return closed(index, fence, content)

    monkeypatch.setattr(fences, "_closed", slower)
    with pytest.raises(AssertionError, match="times as long"):
        check_growth("200,000 fences", 2_000)


def test_50_mb_parse_in_under_three_seconds() -> None:
    body = "".join(f"line {number} of ordinary text, forty bytes or so\n" for number in range(200))
    block = f"Some prose.\n```python file=src/a.py\n{body}```\n"
    document = block * (50_000_000 // len(block))
    started = time.perf_counter()
    assert len(parse_fences(document)) > 1000
    assert time.perf_counter() - started < 3
