"""Providers by name, and those of other packages."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint

import pytest

from sapwood.core.provider import ProviderResult
from sapwood.errors import NotFound, ProviderFailed
from sapwood.providers import discovery
from tests.providers.streams import Says, play


def theirs() -> Says:
    return Says(ProviderResult("theirs"))


def nothing() -> object:
    return object()


@pytest.fixture(autouse=True)
def _others(monkeypatch: pytest.MonkeyPatch) -> None:
    def points(*, group: str) -> Iterable[EntryPoint]:
        here = "tests.providers.test_discovery"
        named = {"theirs": f"{here}:theirs", "broken": "no.such.module:x", "empty": f"{here}:nothing", "command": "x:y"}
        return [EntryPoint(name, value, group) for name, value in named.items()]

    monkeypatch.setattr(discovery, "entry_points", points)


def test_a_package_adds_a_provider_by_an_entry_point() -> None:
    assert discovery.provider_names() == ["broken", "command", "empty", "scripted", "theirs"]
    assert play(discovery.find_provider("theirs")) == [ProviderResult("theirs")]


def test_nobody_replaces_ours() -> None:
    assert "Command" in type(discovery.find_provider("command")).__name__


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(NotFound, match="did you mean") as caught:
        discovery.find_provider("scriptd")
    assert "scripted" in str(caught.value)


@pytest.mark.parametrize("name", ["broken", "empty"])
def test_one_that_cannot_be_used_is_a_typed_error(name: str) -> None:
    with pytest.raises(ProviderFailed, match=r"cannot be loaded|no run"):
        discovery.find_provider(name)
