"""Brings rows into memory before they are needed, and changed rows back to the files.

The caller's thread decides which slot has which row; one other thread moves the records (`transfers`).
"""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ttf.data.embedding.hot_rows import HotRows
from ttf.data.embedding.look_ahead import NEVER, LookAhead
from ttf.data.embedding.settings import Settled
from ttf.data.embedding.statistics import TableStats
from ttf.data.embedding.stored_rows import StoredRows
from ttf.data.embedding.transfers import Transfers

_LATELY: Final = 2  # Batches that are ready before the next ones are read.


class Residents:
    """The rows in memory. Counts what it does in `stats`."""

    def __init__(self, stored: StoredRows, hot: HotRows, settled: Settled) -> None:
        self.stats = TableStats()
        self.hot = hot
        self.transfers = Transfers(settled.waiting_bytes)
        self._stored = stored
        self._chunk = settled.chunk
        self._ahead = LookAhead(stored.rows)
        self._loaded = 0  # All announced batches before this one are in memory, or on their way.
        self._arrivals: dict[int, Future[None]] = {}

    # --- rows that are needed -----------------------------------------------------------------------

    def announce(self, ids: NDArray[np.int64]) -> None:
        """Distinct, ascending rows of one more batch."""
        number = self._ahead.announced
        first_use = self._ahead.announce(ids)
        slots = self.hot.slots_of(first_use)
        self.hot.next_use[slots[slots >= 0]] = number
        self._read_ahead()

    def present(self, ids: NDArray[np.int64], *, asked: bool = True) -> NDArray[np.int64]:
        """The slots of distinct, ascending rows, all in memory and whole. Takes the announced batch
        if it is this one. `asked`: counts as a request; a step for rows that were just read does
        not."""
        ahead = self._ahead
        announced = len(ahead) > 0 and np.array_equal(ahead.batch(ahead.now), ids)
        if announced:
            self._take_announced(ids)
        slots = self.hot.slots_of(ids)
        missing = ids[slots < 0]
        if asked:
            self.stats.requests += len(ids)
            self.stats.hits += len(ids) - len(missing)
        if len(missing):
            self.hot.used(slots[slots >= 0])
            self.stats.demand_loads += len(missing)
            self.transfers.wait(self._load(missing))
            slots = self.hot.slots_of(ids)
        elif self._arrivals and not announced:
            self._wait_for_arrivals(slots)
        self.hot.used(slots)
        if announced:  # not before these rows count as used: they would be the first to go
            self._read_ahead()
        return slots

    def _wait_for_arrivals(self, slots: NDArray[np.int64]) -> None:
        # A row that was not announced for now may be under way for a later batch.
        for number in np.unique(self.hot.read_for[slots]).tolist():
            if number in self._arrivals:
                self.transfers.wait(self._arrivals.pop(number))

    def _take_announced(self, ids: NDArray[np.int64]) -> None:
        number = self._ahead.now
        if number >= self._loaded:
            self._read_ahead(at_once=True)
        arrival = self._arrivals.pop(number, None)
        slots = self.hot.slots_of(ids)
        if arrival is not None:
            if not arrival.done():
                late = int(np.count_nonzero(self.hot.read_for[slots[slots >= 0]] == number))
                self.stats.late_loads += late
                self.stats.hits -= late
            self.transfers.wait(arrival)
        _, later = self._ahead.take()
        self.hot.next_use[slots[slots >= 0]] = later[slots >= 0]

    def look(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """The records of distinct rows, which stay where they are."""
        self._settle()
        slots = self.hot.slots_of(ids)
        there, missing = np.flatnonzero(slots >= 0), np.flatnonzero(slots < 0)
        records = np.empty((len(ids), self.hot.array.shape[1]), np.float32)
        records[there] = self.hot.array[slots[there]]
        stored = self._stored
        for start in range(0, len(missing), self._chunk):
            here = missing[start : start + self._chunk]
            wanted = ids[here]
            reading = self.transfers.submit(partial(stored.read, wanted))
            records[here] = self.transfers.wait(reading)
        return records

    # --- reading --------------------------------------------------------------------------------------

    def _read_ahead(self, *, at_once: bool = False) -> None:
        """Asks for the rows of announced batches, many batches at a time: read in the order of the
        file, they then lie close together."""
        ahead = self._ahead
        self._loaded = max(self._loaded, ahead.now)
        if self._loaded == ahead.announced:
            return
        room = self.hot.room(self._loaded)
        urgent = at_once or self._loaded - ahead.now < _LATELY
        if not urgent and room < self.hot.slots // 4:
            return
        first = self._loaded
        wanted: list[NDArray[np.int64]] = []
        places: list[NDArray[np.int64]] = []
        room -= room // 8  # For rows that nobody announces.
        while self._loaded < ahead.announced:
            batch = ahead.batch(self._loaded)
            slots = self.hot.slots_of(batch)
            missing = batch[slots < 0]
            # Rows that are there for this batch first could have gone, and no longer can.
            kept = np.count_nonzero(self.hot.next_use[slots[slots >= 0]] == self._loaded)
            room -= len(missing) + int(kept)
            if room < 0:
                break
            self._loaded += 1
            if len(missing):
                self._evict(self.hot.victims(len(missing), self._loaded - 1))
                wanted.append(missing)
                places.append(self.hot.fill(missing, self._loaded - 1))
        if wanted:
            arrival = self._fetch(np.concatenate(wanted), np.concatenate(places))
            self._arrivals |= dict.fromkeys(range(first, self._loaded), arrival)

    def _load(self, ids: NDArray[np.int64]) -> Future[None]:
        self._make_room(len(ids))
        return self._fetch(ids, self.hot.fill(ids, NEVER))

    def _fetch(self, ids: NDArray[np.int64], slots: NDArray[np.int64]) -> Future[None]:
        self.stats.disk_loads += len(ids)
        order = np.argsort(ids)
        ids, slots = ids[order], slots[order]
        stored, array, chunk = self._stored, self.hot.array, self._chunk

        def fetch() -> None:
            for start in range(0, len(ids), chunk):
                here = slice(start, start + chunk)
                array[slots[here]] = stored.read(ids[here])

        return self.transfers.submit(fetch)

    # --- making room ------------------------------------------------------------------------------------

    def _make_room(self, count: int) -> None:
        self._evict(self.hot.victims(count, self._loaded - 1))
        if self.hot.slots - self.hot.occupied < count:
            # Everything is announced, or was just used: only the rows of this call must stay.
            self._settle()
            self._forget_announced()
            self._evict(self.hot.victims(count, -1, calls=1))

    def _evict(self, slots: NDArray[np.int64]) -> None:
        if len(slots):
            self.write_back(slots[self.hot.dirty[slots]])
            self.hot.empty(slots)
            self.stats.evictions += len(slots)

    def write_back(self, slots: NDArray[np.int64]) -> None:
        """Asks for the changed rows of these slots to be appended to the journal."""
        stored, order = self._stored, slots[np.argsort(self.hot.row_in[slots])]
        for start in range(0, len(order), self._chunk):
            here = order[start : start + self._chunk]
            ids, records = self.hot.row_in[here].copy(), self.hot.array[here]
            self.hot.dirty[here] = False
            self.stats.written_back += len(here)
            self.stats.bytes_written += records.nbytes

            def append(
                ids: NDArray[np.int64] = ids, records: NDArray[np.float32] = records
            ) -> None:
                stored.append(ids, records)

            self.transfers.submit(append, waiting_bytes=records.nbytes)

    def resize(self, slots: int, settled: Settled) -> None:
        """Fewer slots: their rows are written back, and their memory goes back to the system."""
        self._chunk = settled.chunk
        self.transfers.most_waiting_bytes = settled.waiting_bytes
        leaving = self.hot.above(slots)
        if len(leaving):
            self._settle()  # No transfer may fill a slot that goes.
            self._forget_announced()
            self.write_back(leaving[self.hot.dirty[leaving]])
            self.hot.forget(leaving)
            self.stats.evictions += len(leaving)
        self.hot.resize(slots)

    def _settle(self) -> None:
        for arrival in self._arrivals.values():
            self.transfers.wait(arrival)
        self._arrivals.clear()

    def _forget_announced(self) -> None:
        self._ahead.forget()
        self.hot.not_announced()
        self._loaded = self._ahead.now
