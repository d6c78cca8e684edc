"""The errors: the drawing is the tree, every message is one line with something to do, and every error travels.

`SAPWOOD_WRITE_GOLDEN=1` draws the tree anew: descriptions stay, a new class gets the first line of its docstring.
"""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sapwood import errors
from sapwood.errors import InvalidArtifact, InvalidInput, SapwoodError

SOURCE = Path(errors.__file__)
DRAWING = re.compile(r"^SapwoodError$.*?(?=^$)", flags=re.M | re.S)
LINE = re.compile(r"([│├└─ ]*)(\w+)\s*(.*?)(?:\s{2,}exit code (\d))?")
WHAT_TO_SAY_AT = 31
EXIT_CODE_AT = 100


def classes(cls: type[SapwoodError] = SapwoodError) -> Iterator[type[SapwoodError]]:
    yield cls
    for below in own_subclasses(cls):
        yield from classes(below)


def own_subclasses(cls: type[SapwoodError]) -> list[type[SapwoodError]]:
    return [below for below in cls.__subclasses__() if below.__module__ == errors.__name__]


def drawn_words() -> dict[str, str]:
    found = DRAWING.search(errors.__doc__ or "")
    assert found
    lines = [LINE.fullmatch(line) for line in found[0].rstrip("\n").split("\n")]
    return {line[2]: line[3] for line in lines if line}


def drawing() -> str:
    words = drawn_words()
    return "\n".join(["SapwoodError", *branches(SapwoodError, "", words)]) + "\n"


def branches(cls: type[SapwoodError], indent: str, words: dict[str, str]) -> Iterator[str]:
    below = own_subclasses(cls)
    for number, one in enumerate(below, 1):
        is_last = number == len(below)
        says = words.get(one.__name__) or (one.__doc__ or "?").split("\n")[0].rstrip(".")
        line = f"{indent}{'└─' if is_last else '├─'} {one.__name__}".ljust(WHAT_TO_SAY_AT - 1) + f" {says}"
        if "exit_code" in vars(one):
            line = line.ljust(EXIT_CODE_AT) + f"  exit code {one.exit_code}"
        yield line
        yield from branches(one, f"{indent}{'    ' if is_last else '│   '}", words)


def test_the_drawing_is_the_tree() -> None:
    source = SOURCE.read_text()
    if os.environ.get("SAPWOOD_WRITE_GOLDEN") == "1":
        SOURCE.write_text(DRAWING.sub(lambda _: drawing(), source, count=1))
        return
    found = DRAWING.search(source)
    assert found
    assert found[0] == drawing(), "run this test with SAPWOOD_WRITE_GOLDEN=1 and read the difference"
    assert all(drawn_words()[cls.__name__] for cls in classes() if cls is not SapwoodError)


def test_exit_codes() -> None:
    assert {cls.exit_code for cls in classes()} == {2, 3, 4}
    assert SapwoodError.exit_code == 4
    assert InvalidInput.exit_code == 2
    assert errors.NotFound.exit_code == 3


HOSTILE = "first\nsecond\x1b[31m\r\u202e"


def sample(annotation: str) -> Any:
    """Return an argument of this annotation, as hostile as it can be."""
    simple = {"int": 7, "float": 1.5, "bool": True, "int | None": 7, "str | None": HOSTILE, "object": [HOSTILE]}
    simple |= {"dict[str, Any]": {"summary": {"rejected": 1, "total_blocks": 2}}, "str": HOSTILE}
    return (HOSTILE,) if annotation.startswith(("Sequence", "tuple")) else simple[annotation]


def made(cls: type[SapwoodError]) -> SapwoodError:
    parameters = [one for name, one in inspect.signature(cls.__init__).parameters.items() if name != "self"]
    positional = [sample(one.annotation) for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    return cls(*positional, **{one.name: sample(one.annotation) for one in parameters if one.kind is one.KEYWORD_ONLY})


EVERY = list(classes())


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_every_message_is_one_printable_line(cls: type[SapwoodError]) -> None:
    message = str(made(cls))
    assert message.isprintable()
    assert 0 < len(message) < 2_000


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_every_error_survives_pickle_and_copy(cls: type[SapwoodError]) -> None:
    error = made(cls)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is cls
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


def test_a_message_without_end_is_cut() -> None:
    assert len(str(InvalidArtifact("x", "y" * 100_000))) < 2_000


@pytest.mark.mutant
def test_a_class_that_is_not_drawn_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Undrawn(InvalidInput):
        """Nobody drew this."""

    monkeypatch.delenv("SAPWOOD_WRITE_GOLDEN", raising=False)
    monkeypatch.setattr(Undrawn, "__module__", errors.__name__)
    with pytest.raises(AssertionError):
        test_the_drawing_is_the_tree()
    monkeypatch.setattr(Undrawn, "__module__", __name__)
