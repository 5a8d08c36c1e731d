"""`EmbeddingTable`: trainable vectors, one per document, item or sample, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from ttf.data.embedding.hot_rows import ROW_BYTES, SLOT_BYTES, HotRows
from ttf.data.embedding.look_ahead import NEVER, LookAhead
from ttf.data.embedding.optimizers import optimizer_named
from ttf.data.embedding.records import Layout
from ttf.data.embedding.statistics import TableStats
from ttf.data.embedding.stored_rows import StoredRows, size_on_disk
from ttf.data.embedding.transfers import Transfers
from ttf.errors import ConfigError
from ttf.machine.memory.limits import budget_bytes

_FEWEST_SLOTS: Final = 64
_LATELY: Final = 2  # Batches that are ready before the next ones are read.
_AUTO_SYNC_BYTES: Final = 1 << 30  # Of a journal, until it is applied.

Ids = ArrayLike | torch.Tensor
Values = ArrayLike | torch.Tensor


class EmbeddingTable:
    """Rows of `dim` float32 values in a folder; the most useful ones in memory.

    Use it from one thread. `get`, `update` and `apply_gradients` have the values that one tensor in
    memory would have, bit for bit. What was done since the last `sync` is lost with the process;
    `sync` and everything before it is not.

        with ttf.EmbeddingTable("items", rows=10_000_000, dim=128, budget="1GB") as table:
            vectors = table.get(ids).requires_grad_()
            loss(vectors).backward()
            table.apply_gradients(ids, vectors.grad)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rows: int,
        dim: int,
        budget: int | str = "auto",
        optimizer: str = "adagrad",
        lr: float | None = None,
        seed: int = 0,
        auto_sync: bool = True,
        at_version: int | None = None,
    ) -> None:
        """`budget`: memory for everything the table keeps, in bytes or as "1GB"; auto: a quarter of
        the limit. `lr` None: the optimizer's usual one. `auto_sync`: also syncs when the journal
        has grown by a gigabyte. `at_version`: an earlier result of `sync(keep=True)`."""
        _refuse_shape(rows, dim)
        self.rows, self.dim = rows, dim
        self.optimizer = optimizer_named(optimizer, lr)
        self.auto_sync = auto_sync
        self._layout = Layout(dim=dim, state=self.optimizer.state_words(dim), seed=seed)
        self._slots = _slots_of(budget, rows, self._layout)
        self._stored = StoredRows(Path(path), rows, self._layout, optimizer, at_version)
        self._transfers = Transfers()
        self._hot = HotRows(rows, self._slots, self._layout)
        self._ahead = LookAhead(rows)
        self._loaded = 0  # All announced batches before this one are in memory, or on their way.
        self._arrivals: dict[int, Future[None]] = {}
        self._stats = TableStats(most_hot_rows=self._slots)
        self._closed = False

    # --- rows ---------------------------------------------------------------------------------------

    def get(self, ids: Ids) -> torch.Tensor:
        """A copy of the rows' values, (len(ids), dim); ids may repeat."""
        distinct, inverse = self._distinct(ids)
        self._stats.requests += len(distinct)
        parts = [
            self._layout.values(self._hot.records[torch.from_numpy(self._present(part))])
            for part in self._portions(distinct)
        ]
        values = parts[0] if len(parts) == 1 else torch.cat(parts)
        return values.index_select(0, inverse)

    def update(self, ids: Ids, values: Values) -> None:
        """Assigns values (len(ids), dim) to distinct rows; the optimizer's state stays."""
        distinct, inverse = self._distinct(ids)
        if len(distinct) != len(inverse):
            raise ValueError("the ids of one update must be distinct")
        new = torch.empty(len(distinct), self.dim)
        new[inverse] = self._matrix(values, len(inverse), "values")
        self._stats.requests += len(distinct)
        self._stats.updates += len(distinct)
        self._change(distinct, new, assign=True)

    def apply_gradients(self, ids: Ids, gradients: Values) -> None:
        """One step of the optimizer for these rows; gradients of repeated ids are summed."""
        distinct, inverse = self._distinct(ids)
        given = self._matrix(gradients, len(inverse), "gradients")
        summed = torch.zeros(len(distinct), self.dim).index_add_(0, inverse, given)
        self._stats.updates += len(distinct)
        self._change(distinct, summed, assign=False)

    def prefetch(self, ids: Ids) -> None:
        """Announces the rows of a later `get` or `update`; announce them in the order of those
        calls. The table reads them beforehand, and keeps the rows that are needed soonest."""
        distinct, _ = self._distinct(ids)
        number = self._ahead.announced
        first_use = self._ahead.announce(distinct)
        slots = self._hot.slots_of(first_use)
        self._hot.next_use[slots[slots >= 0]] = number
        self._read_ahead()

    def sync(self, *, keep: bool = False) -> int:
        """Makes all changes durable, and returns the number of this version. With `keep` it can be
        opened again later (`at_version`), until a later `release`."""
        self._open_or_raise()
        self._write_back(np.flatnonzero(self._hot.dirty))
        version = self._transfers.wait(self._transfers.submit(self._stored.commit))
        if not keep:
            self.release(version)
        self._stats.syncs += 1
        return version

    def release(self, version: int) -> None:
        """Forgets the versions before this one."""
        self._transfers.wait(self._transfers.submit(lambda: self._stored.apply(version)))

    @property
    def version(self) -> int:
        """The newest one that is durable."""
        return self._stored.version

    def stats(self) -> TableStats:
        hot = self._hot
        return replace(
            self._stats,
            stall_s=self._transfers.waited_s,
            bytes_read=self._stored.bytes_read,
            hot_rows=hot.occupied,
            most_hot_rows=hot.slots,
            pending_rows=int(np.count_nonzero(hot.dirty)),
            journal_bytes=self._stored.journal_bytes,
            disk_bytes=size_on_disk(self._stored.path),
        )

    def resize(self, budget: int | str) -> None:
        """Another budget, at most the one that the table was opened with. A smaller one writes rows
        back and returns their memory to the system."""
        self._open_or_raise()
        slots = min(_slots_of(budget, self.rows, self._layout), self._hot.most)
        leaving = self._hot.above(slots)
        if len(leaving):
            self._settle()  # No transfer may fill a slot that goes.
            self._forget_announced()
            self._write_back(leaving[self._hot.dirty[leaving]])
            self._hot.forget(leaving)
            self._stats.evictions += len(leaving)
        self._hot.resize(slots)

    def close(self) -> None:
        """Syncs and closes."""
        if not self._closed:
            try:
                self.sync()
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Closes without a sync, as if the process had died."""
        self._closed = True
        self._transfers.close()
        self._stored.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After an error the rows may be half of a step: the last sync is what counts.
        self.close() if kind is None else self.abandon()

    # --- the names that people of such a manager know -------------------------------------------------

    def get_embeddings(self, sample_ids: Ids) -> torch.Tensor:
        return self.get(sample_ids)

    def update_embeddings(self, sample_ids: Ids, values: Values) -> None:
        self.update(sample_ids, values)

    def as_dict(self) -> Mapping[str, Any]:
        """`stats`, for logs."""
        stats = self.stats()
        return {**asdict(stats), "hit_rate": stats.hit_rate}

    # --- what a call does ---------------------------------------------------------------------------

    def _distinct(self, ids: Ids) -> tuple[NDArray[np.int64], torch.Tensor]:
        self._open_or_raise()
        given = ids.detach().cpu().numpy() if isinstance(ids, torch.Tensor) else np.asarray(ids)
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise ValueError(f"ids must be whole numbers, (N,), not {given.dtype} {given.shape}")
        distinct, inverse = np.unique(given.astype(np.int64), return_inverse=True)
        if len(distinct) and not (distinct[0] >= 0 and distinct[-1] < self.rows):
            raise IndexError(
                f"ids must be from 0 to {self.rows - 1:,}, but are from {distinct[0]:,} to "
                f"{distinct[-1]:,}"
            )
        return distinct, torch.from_numpy(inverse.astype(np.int64))

    def _matrix(self, values: Values, rows: int, what: str) -> torch.Tensor:
        found = torch.as_tensor(values).detach().to("cpu", torch.float32)
        if found.shape != (rows, self.dim):
            raise ValueError(f"{what} must be ({rows}, {self.dim}), not {tuple(found.shape)}")
        return found

    def _portions(self, distinct: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """More rows than a quarter of the memory holds are taken part by part."""
        most = max(1, self._hot.slots // 4)
        if len(distinct) <= most:
            return [distinct]
        return [distinct[start : start + most] for start in range(0, len(distinct), most)]

    def _change(self, distinct: NDArray[np.int64], given: torch.Tensor, *, assign: bool) -> None:
        done = 0
        for part in self._portions(distinct):
            at = torch.from_numpy(self._present(part))
            records = self._hot.records.index_select(0, at)
            new = given[done : done + len(part)]
            if assign:
                self._layout.values(records).copy_(new)
            else:
                self._layout.steps(records).add_(1)
                self.optimizer.step(self._layout, records, new)
            self._layout.mark_written(records)
            self._hot.records.index_copy_(0, at, records)
            self._hot.dirty[at.numpy()] = True
            done += len(part)
        # After a whole change: what a crash leaves is never half of one.
        if self.auto_sync and self._stored.journal_bytes > _AUTO_SYNC_BYTES:
            self.sync()

    def _present(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slots of rows, all in memory and whole. Takes the announced batch if it is this one."""
        ahead = self._ahead
        if len(ahead) and np.array_equal(ahead.batch(ahead.now), ids):
            self._take_announced(ids)
        slots = self._hot.slots_of(ids)
        missing = ids[slots < 0]
        self._stats.hits += len(ids) - len(missing)
        if len(missing):
            self._hot.used(slots[slots >= 0])
            self._stats.demand_loads += len(missing)
            self._transfers.wait(self._load(missing, NEVER, -1))
            slots = self._hot.slots_of(ids)
        elif self._arrivals:
            self._wait_for_arrivals(slots)
        self._hot.used(slots)
        return slots

    def _wait_for_arrivals(self, slots: NDArray[np.int64]) -> None:
        # A row that was not announced for now may be under way for a later batch.
        later = self._hot.next_use[slots]
        later = later[later != NEVER]
        for number in sorted(self._arrivals):
            if len(later) and number <= later.max():
                self._transfers.wait(self._arrivals.pop(number))

    def _take_announced(self, ids: NDArray[np.int64]) -> None:
        number = self._ahead.now
        if number >= self._loaded:
            self._read_ahead(at_once=True)
        arrival = self._arrivals.pop(number, None)
        if arrival is not None:
            self._transfers.wait(arrival)
        _, later = self._ahead.take()
        slots = self._hot.slots_of(ids)
        self._hot.next_use[slots[slots >= 0]] = later[slots >= 0]
        self._read_ahead()

    # --- moving rows ----------------------------------------------------------------------------------

    def _read_ahead(self, *, at_once: bool = False) -> None:
        """Asks for the rows of announced batches, many batches at a time: read in the order of the
        file, they then lie close together."""
        ahead = self._ahead
        self._loaded = max(self._loaded, ahead.now)
        if self._loaded == ahead.announced:
            return
        room = self._hot.room(self._loaded)
        urgent = at_once or self._loaded - ahead.now < _LATELY
        if not urgent and room < self._hot.slots // 4:
            return
        first = self._loaded
        wanted: list[NDArray[np.int64]] = []
        places: list[NDArray[np.int64]] = []
        room -= room // 8  # For rows that nobody announces.
        while self._loaded < ahead.announced:
            batch = ahead.batch(self._loaded)
            missing = batch[self._hot.slots_of(batch) < 0]
            if len(missing) > room:
                break
            self._loaded += 1
            room -= len(missing)
            if len(missing):
                self._make_room(len(missing))
                wanted.append(missing)
                places.append(self._hot.fill(missing, self._loaded - 1))
        if wanted:
            arrival = self._fetch(np.concatenate(wanted), np.concatenate(places))
            self._arrivals |= dict.fromkeys(range(first, self._loaded), arrival)

    def _load(self, ids: NDArray[np.int64], next_use: int, loaded: int) -> Future[None]:
        self._make_room(len(ids))
        return self._fetch(ids, self._hot.fill(ids, next_use))

    def _fetch(self, ids: NDArray[np.int64], slots: NDArray[np.int64]) -> Future[None]:
        self._stats.disk_loads += len(ids)
        stored, array = self._stored, self._hot.array

        def fetch() -> None:
            array[slots] = stored.read(ids)

        return self._transfers.submit(fetch)

    def _make_room(self, count: int) -> None:
        self._evict(self._hot.victims(count, self._loaded - 1))
        if self._hot.slots - self._hot.occupied < count:
            # Everything is announced, or was just used: only the rows of this call must stay.
            self._settle()
            self._forget_announced()
            self._evict(self._hot.victims(count, -1, calls=1))

    def _evict(self, slots: NDArray[np.int64]) -> None:
        if len(slots):
            self._write_back(slots[self._hot.dirty[slots]])
            self._hot.empty(slots)
            self._stats.evictions += len(slots)

    def _write_back(self, slots: NDArray[np.int64]) -> None:
        if not len(slots):
            return
        order = slots[np.argsort(self._hot.row_in[slots])]
        ids, records = self._hot.row_in[order].copy(), self._hot.array[order]
        self._hot.dirty[order] = False
        self._stats.written_back += len(order)
        self._stats.bytes_written += records.nbytes
        self._transfers.submit(lambda: self._stored.append(ids, records))

    def _settle(self) -> None:
        for arrival in self._arrivals.values():
            self._transfers.wait(arrival)
        self._arrivals.clear()

    def _forget_announced(self) -> None:
        self._ahead.forget()
        self._hot.not_announced()
        self._loaded = self._ahead.now

    def _open_or_raise(self) -> None:
        if self._closed:
            raise ValueError(f"the embedding table {self._stored.path} is closed")


def _refuse_shape(rows: int, dim: int) -> None:
    if not (0 < rows < 2**31 - 1 and 0 < dim <= 65_536):
        raise ConfigError(
            f"An embedding table has 1 to {2**31 - 2:,} rows of 1 to 65,536 values, not {rows:,} "
            f"of {dim:,}."
        )


def _slots_of(budget: int | str, rows: int, layout: Layout) -> int:
    """How many rows fit into the budget, beside what is kept of every row."""
    given = budget_bytes(budget)
    slots = (given - rows * ROW_BYTES) // (layout.size + SLOT_BYTES)
    if slots < min(rows, _FEWEST_SLOTS):
        least = rows * ROW_BYTES + min(rows, _FEWEST_SLOTS) * (layout.size + SLOT_BYTES)
        raise ConfigError(
            f"A budget of {given:,} bytes is too small for an embedding table of {rows:,} rows: the "
            f"places of the rows alone take {rows * ROW_BYTES:,}, and it needs at least {least:,}."
        )
    return int(min(slots, rows))
