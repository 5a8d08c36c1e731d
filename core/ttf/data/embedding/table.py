"""`EmbeddingTable`: trainable vectors, one per document, item or sample, in bounded memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from ttf.data.embedding.eviction import Eviction, EvictionRule
from ttf.data.embedding.hot_rows import SLOT_BYTES, HotRows
from ttf.data.embedding.optimizers import optimizer_named
from ttf.data.embedding.records import Layout
from ttf.data.embedding.residents import Residents
from ttf.data.embedding.settings import FEWEST_SLOTS, JOURNAL_BYTES, Sizes, settle
from ttf.data.embedding.statistics import TableStats
from ttf.data.embedding.stored_rows import StoredRows, size_on_disk
from ttf.errors import ConfigError
from ttf.machine.memory.headroom import headroom

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
        zeros: bool = False,
        at_version: int | None = None,
        **sizes: Unpack[Sizes],
    ) -> None:
        """`budget`: memory for everything the table keeps, in bytes or as "1GB"; auto: a quarter of
        the limit. `lr` None: the optimizer's usual one. `zeros`: rows are zero at first, not random. `at_version`: an earlier result of
        `sync(keep=True)`. `sizes`: `l1_mb`, `l2_mb`, `chunk`, `sync_every` and `auto_sync`, see
        docs/embedding-tables.md; what is not given is chosen, and `reasons` says why."""
        _refuse_shape(rows, dim)
        self.rows, self.dim = rows, dim
        self.optimizer = optimizer_named(optimizer, lr)
        self._layout = Layout(
            dim=dim, state=self.optimizer.state_words(dim), seed=seed, zeros=zeros
        )
        self._given = sizes
        self._settled = settle(budget, rows, self._layout, sizes)
        self._stored = StoredRows(Path(path), rows, self._layout, optimizer, at_version)
        self._hot = HotRows(rows, self._settled.slots, self._layout)
        self._residents = Residents(self._stored, self._hot, self._settled)
        self._rule = EvictionRule(most=self._settled.slots, fewest=min(rows, FEWEST_SLOTS))
        self._keeps = False  # Earlier versions: only `sync` then makes new ones.
        self._syncing: Future[int] | None = None
        self._changes = 0  # Calls that changed rows, since the last sync.
        self._epochs = 0
        self._said = TableStats()  # The figures when the last line was said.
        self._process = os.getpid()
        self._closed = False

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why `l1_mb`, `l2_mb`, `chunk`, `sync_every` and `auto_sync` are what they are."""
        return self._settled.reasons

    # --- rows ---------------------------------------------------------------------------------------

    def get(self, ids: Ids, *, keep: bool = True) -> torch.Tensor:
        """A copy of the rows' values, (len(ids), dim); ids may repeat. With `keep` false the rows are
        not brought into memory: for reading many rows once, between two steps."""
        distinct, inverse = self._distinct(ids)
        if not keep:
            records = torch.from_numpy(self._residents.look(distinct))
            return self._layout.values(records).index_select(0, inverse)
        parts = [
            self._layout.values(self._hot.records[torch.from_numpy(self._residents.present(part))])
            for part in self._portions(distinct)
        ]
        values = parts[0] if len(parts) == 1 else torch.cat(parts)
        return values.index_select(0, inverse)

    def update(self, ids: Ids, values: Values) -> None:
        """Assigns values (len(ids), dim) to distinct rows; the optimizer's state stays."""
        distinct, inverse = self._distinct(ids)
        if len(distinct) != len(inverse):
            raise ValueError("the ids of one update must be distinct")
        new = torch.empty(len(distinct), self.dim, dtype=torch.float32, device="cpu")
        new[inverse] = self._matrix(values, len(inverse), "values")
        self._change(distinct, new, assign=True)

    def apply_gradients(self, ids: Ids, gradients: Values) -> None:
        """One step of the optimizer for these rows; gradients of repeated ids are summed."""
        distinct, inverse = self._distinct(ids)
        given = self._matrix(gradients, len(inverse), "gradients")
        summed = torch.zeros(len(distinct), self.dim, dtype=torch.float32, device="cpu")
        self._change(distinct, summed.index_add_(0, inverse, given), assign=False)

    def prefetch(self, ids: Ids) -> None:
        """Announces the rows of a later `get` or `update`; announce them in the order of those
        calls. The table reads them beforehand, and keeps the rows that are needed soonest."""
        distinct, _ = self._distinct(ids)
        self._residents.announce(distinct)

    def sync(self, *, keep: bool = False) -> int:
        """Makes all changes durable, and returns the number of this version. With `keep` it and the
        versions before it (up to six) can be opened again (`at_version`), until a later `release` or
        a sync without `keep`; meanwhile nothing syncs by itself."""
        self._open_or_raise()
        commit = self._commit()
        version = self._residents.transfers.wait(commit)
        self._keeps = keep
        if not keep:
            self._apply(version)
        return version

    def _commit(self) -> Future[int]:
        self._residents.write_back(np.flatnonzero(self._hot.dirty))
        self._residents.stats.syncs += 1
        self._changes = 0
        return self._residents.transfers.submit(self._stored.commit)

    def _apply(self, version: int | None) -> None:
        # Beside the training: until it is done, rows are read from the journal.
        self._residents.transfers.in_background(self._stored.applying(version))

    def release(self, version: int) -> None:
        """Forgets the versions before this one."""
        self._open_or_raise()
        self._apply(version)

    @property
    def version(self) -> int:
        """The newest one that is durable."""
        return self._stored.version

    def stats(self) -> TableStats:
        hot, transfers = self._hot, self._residents.transfers
        return replace(
            self._residents.stats,
            stall_s=transfers.waited_s,
            bytes_read=self._stored.bytes_read,
            hot_rows=hot.occupied,
            most_hot_rows=hot.slots,
            pending_rows=int(np.count_nonzero(hot.dirty)),
            waiting_bytes=transfers.waiting_bytes,
            journal_bytes=self._stored.journal_bytes,
            disk_bytes=size_on_disk(self._stored.path),
        )

    def end_epoch(self, *, every: int = 1, say: Callable[[str], None] = print) -> TableStats | None:
        """Call it when an epoch ends: after each `every`-th one it says a line of figures, of what
        was done since the line before, and returns them."""
        self._epochs += 1
        if self._epochs % every:
            return None
        now = self.stats()
        done, self._said = now.since(self._said), now
        say(f"embedding table, epoch {self._epochs}: {done.line()}")
        return done

    # --- memory -------------------------------------------------------------------------------------

    def resize(self, budget: int | str) -> None:
        """Another budget, at most the one that the table was opened with. A smaller one writes rows
        back and returns their memory to the system."""
        self._open_or_raise()
        given: Sizes = {**self._given, "l1_mb": None}
        self._settled = settle(budget, self.rows, self._layout, given)
        self._residents.resize(min(self._settled.slots, self._hot.most), self._settled)

    def adaptive_eviction(self) -> Eviction:
        """Looks at the memory of this machine or control group now: gives rows back if it is short,
        takes some again if there is enough, and does nothing in between. Cheap enough for every
        step; see docs/embedding-tables.md for the limits."""
        self._open_or_raise()
        before, hot = headroom(), self._hot
        rows, row_bytes = hot.slots, self._layout.size + SLOT_BYTES
        wanted, reason = self._rule.slots(rows, row_bytes, before, time.monotonic())
        if wanted != rows:
            self._residents.resize(wanted, self._settled)
        return Eviction(
            reason=reason,
            rows_before=rows,
            rows_after=wanted,
            before=before,
            after=headroom() if wanted != rows else before,
        )

    def close(self) -> None:
        """Syncs and closes."""
        if not self._closed and os.getpid() == self._process:
            try:
                self.sync(keep=True)
                transfers, version = self._residents.transfers, self._stored.version
                transfers.wait(transfers.submit(lambda: self._stored.apply(version)))
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Closes without a sync, as if the process had died."""
        self._closed = True
        if os.getpid() != self._process:
            return  # The files and the lock are those of the process that opened it.
        self._residents.transfers.close()
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
        found = torch.as_tensor(values, dtype=torch.float32, device="cpu").detach()
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
            at = torch.from_numpy(self._residents.present(part, asked=assign))
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
        self._residents.stats.updates += len(distinct)
        self._sync_if_due()

    def _sync_if_due(self) -> None:
        # After a whole change: what a crash leaves is never half of one. Nobody waits for it.
        self._changes += 1
        settled = self._settled
        grown = settled.auto_sync and self._stored.open_bytes > JOURNAL_BYTES
        due = grown or 0 < settled.sync_every <= self._changes
        if due and not self._keeps and (self._syncing is None or self._syncing.done()):
            self._syncing = self._commit()
            self._apply(None)

    def _open_or_raise(self) -> None:
        if self._closed:
            raise ValueError(f"the embedding table {self._stored.path} is closed")
        if os.getpid() != self._process:
            # Its thread is not in this process, and both would write to the same files.
            raise ConfigError(
                f"The embedding table {self._stored.path} was opened by another process, from which "
                "this one was forked.",
                hint="Use it in the process that opened it: the workers of a data loader return ids.",
            )


def _refuse_shape(rows: int, dim: int) -> None:
    if not (0 < rows < 2**31 - 1 and 0 < dim <= 65_536):
        raise ConfigError(
            f"An embedding table has 1 to {2**31 - 2:,} rows of 1 to 65,536 values, not {rows:,} "
            f"of {dim:,}."
        )
