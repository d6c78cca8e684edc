"""A module with one guard taken out: the mutant that a check has to notice."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest


def mutated(monkeypatch: pytest.MonkeyPatch, module: ModuleType, old: str, new: str) -> ModuleType:
    """Return a copy of `module` in which `old` reads `new`."""
    assert module.__file__ is not None
    source = Path(module.__file__).read_text()
    assert source.count(old) == 1, f"{module.__name__} has changed: {old!r} stands in it {source.count(old)} times"
    mutant = ModuleType("mutant")
    monkeypatch.setitem(sys.modules, "mutant", mutant)  # dataclasses look their module up
    exec(compile(source.replace(old, new), module.__file__, "exec"), vars(mutant))
    return mutant
