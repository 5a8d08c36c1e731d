"""Large imports without the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from ttf.process.collector import paused_for_imports


class Node:
    """What only a collection can free: it holds itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def nothing_frozen() -> Iterator[None]:
    """As in a new process; the suite itself has frozen its objects."""
    gc.unfreeze()
    yield
    gc.freeze()
    gc.enable()


def _collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def test_imports_are_not_interrupted_by_collections() -> None:
    with paused_for_imports():
        before = _collections()
        made = [Node() for _ in range(5000)]
        assert _collections() == before
    assert len(made) == 5000


def test_what_was_loaded_is_not_visited_again_and_the_rest_is_collected_as_before() -> None:
    with paused_for_imports():
        loaded = [Node() for _ in range(100)]
    assert gc.isenabled() and gc.get_freeze_count() > len(loaded)
    before = _collections()
    made = [Node() for _ in range(5000)]
    assert _collections() > before
    del made
    assert gc.collect() >= 5000


def test_garbage_of_a_process_at_work_is_not_kept() -> None:
    with paused_for_imports():
        pass
    with paused_for_imports():
        made = [Node() for _ in range(100)]
    del made
    assert gc.collect() >= 100


def test_a_failed_import_leaves_the_collector_on() -> None:
    with pytest.raises(ImportError), paused_for_imports():
        raise ImportError
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    with paused_for_imports():
        pass
    assert not gc.isenabled()
