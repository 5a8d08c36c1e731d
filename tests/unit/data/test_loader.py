"""The gather thread: exactly the steps asked for, errors where they are met, nothing left behind."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.conftest import wait_until
from tests.kit.data_files import BANK, config, pairs

from ttf.data.ahead import USUAL, Ahead
from ttf.data.dataset import Dataset
from ttf.data.loader import Loader, StepHead, choose_targets, head_of
from ttf.data.open_dataset import open_dataset
from ttf.data.order import Order
from ttf.data.vectors import Buffers

SAMPLES = 8


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Dataset]:
    positives = np.full((16, 3), -1, np.int64)
    positives[:, 0] = np.arange(16)
    positives[::2, 2] = np.arange(8) + 20
    with open_dataset(config(tmp_path, pairs(pos_train=positives), {"vectors": BANK})) as opened:
        yield opened


class Source:
    """Heads of steps, counted."""

    def __init__(self, data: Dataset) -> None:
        self.data, self.made = data, 0
        self.order = Order(size=16, samples_per_step=SAMPLES, seed=0, fingerprint="x")

    def draw(
        self, step: int, rows: NDArray[np.int64], known: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        mined = np.stack([(rows + step) % 40, np.full(len(rows), -1)], axis=1)
        return mined

    def head(self, step: int) -> StepHead:
        self.made += 1
        return head_of(step, self.data.train, self.order, self.data.bank.gather, self.draw)

    def loader(self, start: int, stop: int, micro_batch: int = 4) -> Loader:
        return Loader(self.head, self.data.train, micro_batch, start, stop)


def gather_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "ttf-gather"]


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    yield
    wait_until(lambda: not gather_threads())


def test_it_yields_exactly_the_steps_and_their_rows(data: Dataset) -> None:
    source = Source(data)
    steps = []
    with source.loader(3, 9) as loader:
        for head, micros in loader:
            steps.append(head.step)
            assert (head.rows == source.order.rows(head.step)).all()
            x = np.concatenate([micro.queries.x for micro in micros])
            assert (x == data.train.batch(head.rows).x).all()
    assert steps == list(range(3, 9))
    assert source.made == 6


def test_it_tells_how_long_its_thread_was_waited_for(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count()  # a second at every look
    monkeypatch.setattr("ttf.data.loader.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    with Source(data).loader(0, 2, micro_batch=4) as loader:
        for _, micros in loader:
            assert len(list(micros)) == 2
            assert loader.take_waited_s() == 3  # for the head and both parts
            assert loader.take_waited_s() == 0


@pytest.mark.parametrize("micro_batch", [1, 3, 8, 100])
def test_how_a_step_is_cut_changes_nothing_in_it(data: Dataset, micro_batch: int) -> None:
    with Source(data).loader(0, 4, micro_batch) as loader:
        for head, micros in loader:
            plain = Source(data).head(head.step)
            assert (head.doc_ids == plain.doc_ids).all()
            assert (head.docs == plain.docs).all()
            assert (head.targets == plain.targets).all()
            spans = []
            for micro in micros:
                spans.append((micro.start, micro.stop))
                wanted = data.train.batch(head.rows[micro.start : micro.stop]).x
                assert (micro.queries.x == wanted).all()
            assert [start for start, _ in spans] == list(range(0, SAMPLES, micro_batch))
            assert spans[-1][1] == SAMPLES


def test_a_head_offers_each_target_and_mined_document_once(data: Dataset) -> None:
    head = Source(data).head(5)
    offered = {int(i) for i in (*head.targets, *((head.rows + 5) % 40))}
    assert head.doc_ids.tolist() == sorted(offered)
    assert (head.docs == BANK[head.doc_ids]).all()
    assert head.num_mined == SAMPLES
    assert (head.known == data.train.positives[head.rows]).all()


def test_without_mining_only_the_targets_are_offered(data: Dataset) -> None:
    order = Source(data).order
    head = head_of(0, data.train, order, data.bank.gather, None)
    assert head.doc_ids.tolist() == sorted(set(head.targets.tolist()))
    assert head.num_mined == 0


def test_targets_are_drawn_evenly_from_the_known_positives() -> None:
    known = np.array([[5, -1, 7], [-1, -1, 3], [0, 1, 2]])
    rows = np.arange(3)
    drawn = np.stack([choose_targets(known, rows, 0, step) for step in range(3000)])
    assert set(drawn[:, 0].tolist()) == {5, 7}
    assert set(drawn[:, 1].tolist()) == {3}
    assert np.abs(np.bincount(drawn[:, 2]) - 1000).max() < 150
    assert abs(int((drawn[:, 0] == 5).sum()) - 1500) < 150
    again = choose_targets(known[::-1], rows[::-1], 0, 7)
    assert (again[::-1] == drawn[7]).all(), "a row's draw does not depend on its batch"


def test_an_error_in_the_thread_is_raised_where_the_step_is_asked_for(data: Dataset) -> None:
    source = Source(data)

    def head(step: int) -> StepHead:
        if step == 2:
            raise LookupError("row 7 is bad")
        return source.head(step)

    done = []
    with pytest.raises(LookupError, match="row 7"), Loader(head, data.train, 4, 0, 5) as loader:
        for each, micros in loader:
            list(micros)
            done.append(each.step)
    assert done == [0, 1]


def test_an_error_while_queries_are_read_arrives_as_well(data: Dataset) -> None:
    head = Source(data).head(0)
    broken = StepHead(**(vars(head) | {"rows": head.rows + 1000}))
    with (
        pytest.raises(IndexError),
        Loader(lambda _: broken, data.train, 4, 0, 1) as loader,
    ):
        for _, micros in loader:
            list(micros)


def test_leaving_early_stops_the_thread_wherever_it_is(data: Dataset) -> None:
    for taken in range(4):
        with Source(data).loader(0, 1000) as loader:
            for count, (_, micros) in enumerate(loader):
                if count == taken:
                    break
                list(micros)
        assert not gather_threads()


def test_a_loader_nobody_iterates_is_closed_as_well(data: Dataset) -> None:
    Source(data).loader(0, 1000).close()
    assert not gather_threads()


def test_asking_a_closed_loader_is_an_error_and_no_wait(data: Dataset) -> None:
    loader = Source(data).loader(0, 1000)
    iterator = iter(loader)
    next(iterator)
    loader.close()
    with pytest.raises(RuntimeError, match="closed"):
        for _, micros in iterator:
            list(micros)


def test_it_reads_no_further_ahead_than_its_queue(data: Dataset) -> None:
    source = Source(data)
    with source.loader(0, 1000, micro_batch=SAMPLES):
        wait_until(lambda: source.made >= 2)
        time.sleep(0.3)
        assert source.made <= USUAL + 1, "a head, its micro-batch, and the next one waiting"


def test_no_steps_are_no_steps(data: Dataset) -> None:
    with Source(data).loader(4, 4) as loader:
        assert list(loader) == []


def test_a_longer_queue_is_filled_and_a_shorter_one_is_not_refilled(data: Dataset) -> None:
    source, ahead = Source(data), Ahead(2)
    steps = 1000
    loader = Loader(source.head, data.train, SAMPLES, 0, steps, None, ahead)
    with loader:
        taken = iter(loader)
        ahead.set(8)
        wait_until(lambda: source.made >= 9)
        assert source.made <= 10, "one waits, and the head of one more"
        ahead.set(1)
        made = source.made
        for _ in range(made - 1):  # what was read is handed out, in order
            head, micros = next(taken)
            assert len(list(micros)) == 1
        assert head.step == made - 2
        assert source.made <= made + 2


def test_a_shorter_queue_returns_its_memory_at_once() -> None:
    buffers, ahead = Buffers(), Ahead(4)
    waiting = ahead.queue(buffers.give_back)
    array = buffers.rows((512, 1024))
    kept = weakref.ref(array.base)
    del array
    assert kept() is not None, "kept for the next array of this size"
    ahead.set(2)
    assert kept() is None
    ahead.set(3)
    assert waiting.put("item", 0.0, again=str)


def test_what_a_shorter_queue_forgets_is_read_again_and_is_the_same(data: Dataset) -> None:
    source, ahead = Source(data), Ahead(9)
    expected = [
        np.concatenate([m.queries.x for m in micros]).copy()
        for _, micros in Source(data).loader(0, 4, micro_batch=2)
    ]
    with Loader(source.head, data.train, 2, 0, 4, None, ahead) as loader:
        wait_until(lambda: source.made >= 2)
        ahead.set(1)  # all but the first of the queue
        found = []
        for _, micros in loader:
            parts = list(micros)
            assert [m.start for m in parts] == [0, 2, 4, 6]
            found.append(np.concatenate([m.queries.x for m in parts]))
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_forgotten_items_hold_no_memory() -> None:
    buffers, ahead = Buffers(), Ahead(4)
    waiting = ahead.queue(buffers.give_back)
    arrays = [buffers.rows((512, 1024)) for _ in range(4)]
    maps = [weakref.ref(array.base) for array in arrays]
    for array in arrays:
        assert waiting.put(array, 0.0, again=lambda: "made again")
    del arrays, array
    ahead.set(2)
    assert [kept() is not None for kept in maps] == [True, True, False, False]
    assert waiting.get(0.0).shape == (512, 1024)
    assert waiting.get(0.0).shape == (512, 1024)
    assert waiting.get(0.0) == "made again"
