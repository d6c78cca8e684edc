"""Graphs: forward order, descendants, reach and cycles, against small definitions of each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.graph import descendants, find_cycle, forward_order

KEYS = "abcdef"
arrows_of = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)), max_size=12, unique=True)


@given(arrows_of)
def test_a_graph_has_a_full_forward_order_or_a_cycle(arrows: list[tuple[str, str]]) -> None:
    order = forward_order(KEYS, arrows)
    cycle = find_cycle(KEYS, arrows)
    assert (len(order) == len(KEYS)) == (not cycle)
    assert all((a, b) in arrows for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True))
    assert all(order.index(a) < order.index(b) for a, b in arrows if a in order and b in order)


def reachable(starts: set[str], arrows: list[tuple[str, str]]) -> set[str]:
    further = starts | {b for a, b in arrows if a in starts}
    return starts if further == starts else reachable(further, arrows)


@given(arrows_of)
def test_descendants_are_what_can_be_reached(arrows: list[tuple[str, str]]) -> None:
    forward = [(a, b) for a, b in arrows if a < b]
    reach = descendants(forward_order(KEYS, forward), forward)
    assert reach == {key: reachable({key}, forward) for key in KEYS}


def test_equals_stay_in_the_order_given() -> None:
    assert forward_order(["c", "b", "a"], [("b", "a")]) == ["c", "b", "a"]
