"""The collector is off exactly while somebody asks for it, and nobody's own choice is overridden."""

from __future__ import annotations

import gc
import threading

import pytest

from sapwood.runtime.collector import without_collector


def test_the_collector_comes_back_when_the_last_block_ends_also_by_an_error() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError, match="x"), without_collector():  # noqa: PT012
        with without_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError("x")
    assert gc.isenabled()


def test_blocks_of_several_threads_overlap() -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with without_collector():
            entered.set()
            leave.wait(5)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(5)
    with without_collector():
        pass
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with without_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
