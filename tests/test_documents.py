"""What the documents show is run, and what they link to is there."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.M | re.S)


def test_the_readme_example_prints_what_the_readme_says(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    (example,) = blocks(text, "python")
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == blocks(text, "text")[-1]


@pytest.mark.parametrize("document", ["context", "durability", "templates"])
def test_every_python_block_prints_the_text_block_after_it(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    text = (ROOT / "docs" / f"{document}.md").read_text()
    pairs = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", text, flags=re.M | re.S)
    assert len(pairs) == text.count("```python") > 1
    scope: dict[str, object] = {}
    for code, expected in pairs:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, scope)  # our own document
        assert printed.getvalue().strip() == expected.strip()


def test_the_architecture_names_files_that_are_there_and_every_package() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = re.findall(r"`([a-z_]+/[a-z_]+\.py)`", text)
    assert named
    assert [name for name in named if not (ROOT / "src/sapwood" / name).exists()] == []
    layers = text.split("```")[1].split()
    packages = {path.parent.name for path in (ROOT / "src/sapwood").glob("*/__init__.py")}
    assert packages - set(layers) == set()


def test_contributing_names_every_verb() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), flags=re.M)
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert [verb for verb in phony.split() if f"`make {verb}" not in text] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"
