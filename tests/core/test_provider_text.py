"""The text every provider gets."""

from __future__ import annotations

import dataclasses

import pytest

import sapwood


def test_context_entries_are_numbered_before_the_prompt() -> None:
    assert sapwood.render_provider_text("do it", ("a\nb", "c")) == "Context:\n[1] a\nb\n[2] c\n\ndo it"


def test_without_context_the_text_is_the_prompt_alone() -> None:
    assert sapwood.render_provider_text("do it", ()) == "do it"


def test_options_are_a_frozen_value() -> None:
    options = sapwood.ProviderRunOptions(context=("a",), system_prompt="s")
    assert (options.context, options.system_prompt) == (("a",), "s")
    assert sapwood.ProviderRunOptions().context == ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.context = ()  # type: ignore[misc]
