"""Identity and time for the events of a provider."""

from __future__ import annotations

from collections.abc import Callable

from sapwood.clock import KeyFactory, now_ms
from sapwood.core.instants import instant_of_ms
from sapwood.core.provider_lines import Stamp
from sapwood.ports import Clock

Stamps = Callable[[str], Stamp]
"""Gives the stamp of the next event of a node."""


def real_stamps(keys: KeyFactory | None = None, clock: Clock = now_ms) -> Stamps:
    """Return stamps from the real clock."""
    factory = keys or KeyFactory()
    return lambda node: Stamp(factory.segment(), node, instant_of_ms(clock()))
