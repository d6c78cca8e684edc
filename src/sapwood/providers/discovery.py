"""Providers by name: ours, and those that other packages offer in the entry point group `sapwood.providers`.

An entry point names something that, called without arguments, gives a provider; it is loaded at its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from sapwood.core.mistakes import Problem, unknown_name
from sapwood.errors import NotFound, ProviderFailed
from sapwood.ports import Provider
from sapwood.providers.command import CommandOptions, CommandProvider
from sapwood.providers.scripted import ScriptedProvider, option_problems

GROUP: Final = "sapwood.providers"
_OURS: Final[dict[str, Callable[[], Provider]]] = {"command": CommandProvider, "scripted": ScriptedProvider}

_CHECKS: Final[dict[str, Callable[[Mapping[str, Any]], Iterable[Problem]]]] = {
    "command": CommandOptions.problems,
    "scripted": option_problems,
}


def check_options(name: str, settings: Mapping[str, Any]) -> Iterable[Problem]:
    """Return what is wrong with the options of a node, as far as it can be told before the call: of ours alone."""
    return _CHECKS[name](settings) if name in _CHECKS else ()


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
