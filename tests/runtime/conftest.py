"""The store of tests that run workflows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sapwood.runtime.session import Store
from tests.runtime.world import open_world


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_world(tmp_path / "sapwood.db") as store:
        yield store
