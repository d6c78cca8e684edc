"""Settings: which source wins, and what a mistake says."""

from __future__ import annotations

from pathlib import Path

import pytest

from sapwood.errors import InvalidSettings
from sapwood.settings import Settings


def write_toml(folder: Path, text: str) -> None:
    (folder / "sapwood.toml").write_text(text)


def test_defaults_stand_when_nothing_is_given(tmp_path: Path) -> None:
    settings = Settings.read({"project": str(tmp_path)}, {})
    assert settings.store_path == str(tmp_path / ".sapwood/sapwood.db")
    assert settings.provider == "scripted"


def test_flags_win_over_variables_over_the_file(tmp_path: Path) -> None:
    write_toml(tmp_path, 'store = "file.db"\nprovider = "file"\ntokenizer = "file"')
    environ = {"SAPWOOD_STORE": "variable.db", "SAPWOOD_PROVIDER": "variable"}
    settings = Settings.read({"project": str(tmp_path), "store": "/flag.db"}, environ)
    assert (settings.store_path, settings.provider, settings.tokenizer) == ("/flag.db", "variable", "file")


def test_a_flag_that_was_not_given_hides_nothing(tmp_path: Path) -> None:
    write_toml(tmp_path, 'store = "file.db"')
    assert Settings.read({"project": str(tmp_path), "store": None}, {}).store == "file.db"


def test_lists_in_variables_are_separated_by_colons(tmp_path: Path) -> None:
    settings = Settings.read({"project": str(tmp_path)}, {"SAPWOOD_TEMPLATE_ROOTS": "a:b"})
    assert settings.template_roots == ("a", "b")


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ('stroe = "x"', "did you mean store?"),
        ("store = 7", "expected text, got int"),
        ('template_roots = ["a", 1]', "expected a list of texts"),
        ('log_level = "debug"', "unknown; known are"),
        ("store = ", "cannot be read"),
        ("\x00", "cannot be read"),
        (f"store = {'9' * 5_000}", "cannot be read"),
        (f"ingest = {'[' * 5_000}", "cannot be read: lists or tables nested too deep"),
        ('project = "elsewhere"', "say it by flag or SAPWOOD_PROJECT"),
    ],
)
def test_a_mistake_names_the_file_and_what_is_allowed(tmp_path: Path, toml: str, expected: str) -> None:
    write_toml(tmp_path, toml)
    with pytest.raises(InvalidSettings) as caught:
        Settings.read({"project": str(tmp_path)}, {})
    assert expected in str(caught.value)
    assert "sapwood.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_in_a_variable_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"SAPWOOD_HANDOFF \(environment\): .*; put it in sapwood.toml"):
        Settings.read({"project": str(tmp_path)}, {"SAPWOOD_HANDOFF": "max_chars_per_artifact=5"})
