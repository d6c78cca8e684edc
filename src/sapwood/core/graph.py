"""Directed graphs as keys and pairs of keys: their order, what follows what, and their cycles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

Arrow = tuple[str, str]


def forward_order(keys: Iterable[str], arrows: Sequence[Arrow]) -> list[str]:
    """Return the keys so that every arrow leads forward, the earliest of `keys` first; keys on a cycle are left out."""
    names = list(keys)
    place = {key: at for at, key in enumerate(names)}
    waiting_for = dict.fromkeys(names, 0)
    for _, target in arrows:
        waiting_for[target] += 1
    following = _following(names, arrows)
    free = [place[key] for key, count in waiting_for.items() if count == 0]
    heapify(free)
    order = []
    while free:
        key = names[heappop(free)]
        order.append(key)
        for target in following[key]:
            waiting_for[target] -= 1
            if waiting_for[target] == 0:
                heappush(free, place[target])
    return order


def descendants(order: Sequence[str], arrows: Sequence[Arrow]) -> dict[str, frozenset[str]]:
    """Return for each key of a forward order itself and everything behind it."""
    following = _following(order, arrows)
    reach: dict[str, frozenset[str]] = {}
    for key in reversed(order):
        reach[key] = frozenset({key}).union(*(reach[target] for target in following[key]))
    return reach


def find_cycle(keys: Iterable[str], arrows: Sequence[Arrow]) -> list[str]:
    """Return the keys of one cycle in the order of its arrows, or an empty list."""
    names = list(keys)
    on_cycles = set(names) - set(forward_order(names, arrows))
    before: dict[str, str] = {target: source for source, target in arrows if {source, target} <= on_cycles}
    key = next((name for name in names if name in before), None)
    path: list[str] = []
    while key is not None and key not in path:  # going back from a key that is stuck always ends in a cycle
        path.append(key)
        key = before[key]
    return [] if key is None else path[path.index(key) :][::-1]


def _following(keys: Iterable[str], arrows: Sequence[Arrow]) -> dict[str, list[str]]:
    following: dict[str, list[str]] = {key: [] for key in keys}
    for source, target in arrows:
        following.setdefault(source, []).append(target)
    return following
