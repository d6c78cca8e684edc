"""The reference store keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sapwood.ports import ArtifactStore
from sapwood.storage.memory import MemoryStore
from tests.storage.contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def open_store(self) -> Callable[[], ArtifactStore]:
        return MemoryStore
