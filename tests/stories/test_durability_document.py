"""The examples in docs/durability.md print what stands below them."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "durability.md"


def test_the_examples_of_the_durability_document_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len(blocks) == DOCUMENT.read_text().count("```python") == 3
    names: dict[str, object] = {}
    for source, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(source, names)
        assert printed.getvalue().strip() == expected.strip()
