"""The fixture of stories that run workflows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from sapwood.core.prompt import ProviderRunOptions
from sapwood.providers.scripted import ScriptedProvider
from tests.stories.flows import Call, Story


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    calls: list[Call] = []
    original = ScriptedProvider.run

    async def spied(self: ScriptedProvider, prompt: str, options: ProviderRunOptions) -> AsyncIterator[Any]:
        calls.append(Call(prompt, options))
        async for item in original(self, prompt, options):
            yield item

    monkeypatch.setattr(ScriptedProvider, "run", spied)
    story = Story(tmp_path, calls)
    with story.store:
        yield story
