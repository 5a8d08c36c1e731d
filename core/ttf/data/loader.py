"""The gather thread: reads the next steps' rows while the current one is computed.

One thread is enough: a gather is a copy from mapped pages, about a millisecond per ten megabytes,
and it releases the interpreter lock. Micro-batches go through a short queue (`ttf.data.ahead`), so memory
holds a few of them however large the optimizer step is.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ttf.data.ahead import Ahead, AheadQueue
from ttf.data.dataset import Dataset, QueryBatch, Split
from ttf.data.order import Order, key, uniform
from ttf.data.teacher import Taught
from ttf.data.vectors import Buffers

_AHEAD_BYTES = 64 << 20
_AHEAD_STEPS = 8

# (step, rows, known positives) -> mined bank rows (S, n), padded with -1.
DrawNegatives = Callable[[int, NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True)
class StepHead:
    """Data of an optimizer step that is known before its micro-batches are read."""

    step: int
    rows: NDArray[np.int64]
    known: NDArray[np.int64]  # Bank rows of each query's known positives (S, P), padded with -1.
    targets: NDArray[np.int64]  # The positive that each query is trained towards in this step (S,).
    # The distinct documents of the step: targets, mined and own negatives, ascending.
    doc_ids: NDArray[np.int64]
    docs: NDArray[np.float32]
    num_mined: int
    taught: Taught | None = None  # If the loss uses the scores of a teacher.
    # What this step and the coming ones need of trained tables; every step is told once.
    coming: tuple[Needed, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Needed:
    """The rows of trained tables that a step needs; ascending, distinct."""

    step: int
    documents: NDArray[np.int64]
    items: NDArray[np.int64]  # Of the queries.


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """Queries `start..stop` of the step."""

    start: int
    stop: int
    queries: QueryBatch


def choose_targets(
    known: NDArray[np.int64], rows: NDArray[np.int64], seed: int, step: int
) -> NDArray[np.int64]:
    """One of each query's positives, drawn again each time the query is used."""
    if known.shape[1] == 1:
        return known[:, 0]
    counts = (known >= 0).sum(axis=1)
    pick = (uniform(rows, key(seed, "target", step)) * counts).astype(np.int64)
    front = np.take_along_axis(known, np.argsort(known < 0, axis=1, kind="stable"), axis=1)
    return np.take_along_axis(front, pick[:, None], axis=1)[:, 0]


def head_of(
    step: int,
    split: Split,
    order: Order,
    read_documents: Callable[[NDArray[np.int64]], NDArray[np.float32]],
    draw: DrawNegatives | None,
) -> StepHead:
    drawn = drawn_of(step, split, order, draw)
    return replace(drawn, docs=read_documents(drawn.doc_ids))


def drawn_of(step: int, split: Split, order: Order, draw: DrawNegatives | None) -> StepHead:
    """A step's head without the vectors of its documents."""
    rows = order.rows(step)
    known = split.known(rows)
    targets = choose_targets(known, rows, order.seed, step)
    offered = targets
    num_mined = 0
    if draw is not None:
        mined = draw(step, rows, known)
        mined = mined[mined >= 0]
        num_mined = len(mined)
        offered = np.concatenate([targets, mined])
    own = split.own(rows, order.seed, step)
    if len(own):
        offered = np.concatenate([offered, own])
    return StepHead(
        step=step,
        rows=rows,
        known=known,
        targets=targets,
        doc_ids=np.unique(offered),
        docs=np.empty((0, 0), np.float32),
        num_mined=num_mined,
        taught=split.taught(rows, targets, order.seed, step),
    )


@dataclass(frozen=True, kw_only=True)
class StepReader:
    """The inputs of the gather thread: data, order and documents, nothing that training changes."""

    data: Dataset
    order: Order
    read_documents: Callable[[NDArray[np.int64]], NDArray[np.float32]]
    micro_batch: int
    ahead: Ahead = field(default_factory=Ahead)
    announced: int = 0  # Steps whose rows of trained tables are told beforehand; 0: no table.
    samples: range | None = None  # Those of each step whose queries are read; None: all.

    def load(self, start: int, stop: int, draw: DrawNegatives | None) -> Loader:
        untold = iter(range(start, stop))
        return Loader(
            partial(self.head, draw, untold, start + self.announced),
            self.data.train,
            self.micro_batch,
            start,
            stop,
            self.order.rows,
            self.ahead,
            self.samples,
        )

    def head(
        self, draw: DrawNegatives | None, untold: Iterator[int], first_ahead: int, step: int
    ) -> StepHead:
        # A mapped file that was cut kills the process when it is touched: look first.
        self.data.check_unchanged()
        head = head_of(step, self.data.train, self.order, self.read_documents, draw)
        if not self.announced:
            return head
        # At the first step of a window all that are ahead, then one more at each step.
        count = 1 + self.announced if step + self.announced == first_ahead else 1
        coming = tuple(self._needed(draw, each) for each in islice(untold, count))
        return replace(head, coming=coming)

    def _needed(self, draw: DrawNegatives | None, step: int) -> Needed:
        drawn = drawn_of(step, self.data.train, self.order, draw)
        return needed_by(drawn, self.data.train)


def needed_by(drawn: StepHead, split: Split) -> Needed:
    items = split.queries.context_rows(split.keep[drawn.rows])
    return Needed(step=drawn.step, documents=drawn.doc_ids, items=items)


class Loader:
    """Iterates steps `start..stop`; close it (or use `with`) to stop the thread early."""

    def __init__(
        self,
        make_head: Callable[[int], StepHead],
        split: Split,
        micro_batch: int,
        start: int,
        stop: int,
        rows_of: Callable[[int], NDArray[np.int64]] | None = None,
        ahead: Ahead | None = None,
        samples: range | None = None,
    ) -> None:
        """`rows_of`: the rows of any step; if given, later steps are read ahead from a disk.
        `ahead`: how many micro-batches are held before they are asked for. `samples`: those of each
        step whose queries are read; None: all."""
        self._samples = samples
        self._make_head = make_head
        self._rows_of = rows_of
        self._announced_step = start
        self._waited_s = 0.0
        self._buffers = Buffers()
        self._split = split
        self._micro_batch = micro_batch
        self._steps = range(start, stop)
        # Arrays of a longer queue are not lent again once it is shorter.
        self._queue: AheadQueue = (ahead or Ahead()).queue(self._buffers.give_back)
        self._closing = threading.Event()
        # A daemon: a read from a network disk that hangs cannot be ended, and must not keep a run
        # alive that is over.
        self._thread = threading.Thread(target=self._work, name="ttf-gather", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[tuple[StepHead, Iterator[MicroBatch]]]:
        """Use up each step's micro-batches before asking for the next step."""
        for _ in self._steps:
            head = self._take()
            yield head, self._micro_batches(self._starts(head))

    def _starts(self, head: StepHead) -> range:
        """Where the micro-batches of a step begin."""
        samples = self._samples or range(len(head.rows))
        return range(samples.start, samples.stop, self._micro_batch)

    def _micro_batches(self, starts: range) -> Iterator[MicroBatch]:
        for _ in starts:
            yield self._take()

    def take_waited_s(self) -> float:
        """Seconds spent waiting for the thread since the last call."""
        waited_s = self._waited_s
        self._waited_s = 0.0
        return waited_s

    def _take(self) -> Any:
        began = time.perf_counter()
        while not self._closing.is_set():
            try:
                # With a timeout: a signal handler runs between two waits, on every platform, and a
                # loader that was closed by another thread puts nothing any more.
                item = self._queue.get(0.5)
            except queue.Empty:
                continue
            self._waited_s += time.perf_counter() - began
            if isinstance(item, BaseException):
                self._closing.set()
                raise item
            return item
        raise RuntimeError("the loader was closed")

    def _work(self) -> None:
        try:
            for step in self._steps:
                head = self._make_head(step)
                self._put(head)
                self._read_ahead(step, len(head.rows))
                for start in self._starts(head):
                    read = partial(self._read, head, start)
                    self._put(read(), read)
                    if self._closing.is_set():
                        return
        except BaseException as error:  # noqa: BLE001 - raised again in the iterating thread
            self._put(error)

    def _read(self, head: StepHead, start: int) -> MicroBatch:
        stop = min(start + self._micro_batch, len(head.rows))
        queries = self._split.batch(head.rows[start:stop], self._buffers)
        return MicroBatch(start=start, stop=stop, queries=queries)

    def _read_ahead(self, step: int, samples: int) -> None:
        # Starts reading the next steps' queries, if recent ones had to wait for a disk.
        queries = self._split.queries
        if self._rows_of is None or not queries.on_disk:
            return
        step_bytes = samples * queries.length * queries.dim * 4
        steps = min(max(1, _AHEAD_BYTES // step_bytes), _AHEAD_STEPS)
        self._announced_step = max(self._announced_step, step)
        while self._announced_step < min(step + steps, self._steps.stop - 1):
            self._announced_step += 1
            self._split.will_need(self._rows_of(self._announced_step))

    def _put(self, item: Any, again: Callable[[], Any] | None = None) -> None:
        while not self._closing.is_set():
            if self._queue.put(item, 0.1, again):
                return

    def close(self) -> None:
        self._closing.set()
        # The thread may wait for room in the queue: take items out until it ends.
        while self._thread.is_alive():
            self._queue.clear()
            self._thread.join(timeout=0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
