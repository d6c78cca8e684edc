"""Providers by name: ours, and those that other packages offer in the entry point group `sapwood.providers`.

An entry point names something that, called without arguments, gives a provider; it is loaded at its first use.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from sapwood.core.mistakes import unknown_name
from sapwood.errors import NotFound, ProviderFailed
from sapwood.ports import Provider
from sapwood.providers.command import CommandProvider
from sapwood.providers.scripted import ScriptedProvider

GROUP: Final = "sapwood.providers"
_OURS: Final[dict[str, Callable[[], Provider]]] = {"command": CommandProvider, "scripted": ScriptedProvider}


def _offered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in _OURS}


def provider_names() -> list[str]:
    """Return the names that a workflow may use here."""
    return sorted({*_OURS, *_offered()})


def find_provider(name: str) -> Provider:
    """Return a new provider; raise NotFound for an unknown name, ProviderFailed for one that cannot be loaded."""
    if name in _OURS:
        return _OURS[name]()
    point = _offered().get(name)
    if point is None:
        raise NotFound(f"provider {name}", unknown_name("provider", name, provider_names())[1])
    try:
        provider = point.load()()
    except Exception as error:
        raise ProviderFailed(name, f"{point.value} cannot be loaded: {error}", retryable=False) from error
    if not callable(getattr(provider, "run", None)):
        raise ProviderFailed(name, f"{point.value} gives no provider: it has no run", retryable=False)
    found: Provider = provider
    return found
