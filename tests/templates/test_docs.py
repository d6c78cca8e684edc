"""The examples in docs/templates.md print what stands below them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "templates.md"


def test_the_examples_print_what_the_document_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len(blocks) == DOCUMENT.read_text().count("```python") == 3
    names: dict[str, object] = {}
    for source, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(source, names)
        assert printed.getvalue().strip() == expected.strip()
