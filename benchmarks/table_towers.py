"""Two towers over item numbers, and three homes for their vectors: all in RAM as torch has it, an
`ttf.EmbeddingTable`, and a memory map with an LRU cache as one writes it in an afternoon.

One step: rows of both sides, a common MLP (one for each side), InfoNCE in the batch, AdamW for the MLPs
and the rows' own optimizer.
"""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import ttf

LR = 1e-3
Batch = NDArray[np.int64]
"""(2, B): numbers of queries and of documents."""


# --- which rows ------------------------------------------------------------------------------------


def batches(order: str, rows: int, batch: int, steps: int, seed: int = 0) -> Iterator[Batch]:
    """`zipf`: the n-th row is used 1 / n as often as the first. `shuffled`: every row once in an
    epoch, in a new order."""
    draw = np.random.default_rng(seed)
    if order == "zipf":
        edges = np.cumsum(1 / np.arange(1, rows + 1))
        names = draw.permutation(rows)
        for _ in range(steps):
            places = np.searchsorted(edges, draw.random(2 * batch) * edges[-1])
            yield names[places].reshape(2, batch)
        return
    left = np.empty(0, np.int64)
    for _ in range(steps):
        while len(left) < 2 * batch:
            left = np.concatenate([left, draw.permutation(rows)])
        yield left[: 2 * batch].reshape(2, batch)
        left = left[2 * batch :]


# --- where they are --------------------------------------------------------------------------------


class Rows(Protocol):
    """The vectors of a batch as a leaf, and what takes their gradients."""

    def announce(self, ids: Batch) -> None: ...

    def get(self, ids: Batch) -> torch.Tensor:
        """(2 * B, dim), with gradients."""
        ...

    def step(self, ids: Batch, leaf: torch.Tensor) -> None: ...

    def close(self) -> None: ...


class InRam:
    """`nn.Embedding(sparse=True)` and `SparseAdam`."""

    demand_loads = 0

    def __init__(self, rows: int, dim: int) -> None:
        self._embedding = nn.Embedding(rows, dim, sparse=True)
        nn.init.uniform_(self._embedding.weight, -((3 / dim) ** 0.5), (3 / dim) ** 0.5)
        self._optimizer = torch.optim.SparseAdam(self._embedding.parameters(), lr=LR)

    def announce(self, ids: Batch) -> None:
        pass

    def get(self, ids: Batch) -> torch.Tensor:
        return self._embedding(torch.from_numpy(ids.reshape(-1)))  # type: ignore[no-any-return]

    def step(self, ids: Batch, leaf: torch.Tensor) -> None:
        self._optimizer.step()  # type: ignore[no-untyped-call]
        self._optimizer.zero_grad(set_to_none=True)

    def close(self) -> None:
        pass


class InTable:
    def __init__(
        self, path: Path, rows: int, dim: int, budget: int | str, optimizer: str = "adam"
    ) -> None:
        self.table = ttf.EmbeddingTable(
            path, rows=rows, dim=dim, budget=budget, optimizer=optimizer, lr=LR
        )

    def announce(self, ids: Batch) -> None:
        self.table.prefetch(ids.reshape(-1))

    def get(self, ids: Batch) -> torch.Tensor:
        return self.table.get(ids.reshape(-1)).requires_grad_()

    def step(self, ids: Batch, leaf: torch.Tensor) -> None:
        assert leaf.grad is not None
        self.table.apply_gradients(ids.reshape(-1), leaf.grad)

    def close(self) -> None:
        self.table.abandon()


class MapAndLru:
    """The straightforward one: a mapped file, an `OrderedDict` of rows, Adam's state beside each."""

    def __init__(self, path: Path, rows: int, dim: int, budget: int) -> None:
        path.mkdir()
        self._file = np.lib.format.open_memmap(path / "rows.npy", "w+", np.float32, (rows, 3 * dim))
        draw, edge = np.random.default_rng(0), (3 / dim) ** 0.5
        for start in range(0, rows, 65_536):
            here = self._file[start : start + 65_536, :dim]
            here[:] = draw.uniform(-edge, edge, here.shape)
        self._dim = dim
        self._most = budget // (3 * dim * 4)
        self._cache: OrderedDict[int, NDArray[np.float32]] = OrderedDict()
        self._steps = 0
        self.requests = self.demand_loads = 0

    def announce(self, ids: Batch) -> None:
        pass

    def get(self, ids: Batch) -> torch.Tensor:
        wanted = np.unique(ids)
        self.requests += len(wanted)
        for row in wanted.tolist():
            if row in self._cache:
                self._cache.move_to_end(row)
                continue
            self.demand_loads += 1
            self._cache[row] = np.array(self._file[row])
            if len(self._cache) > self._most:
                gone, record = self._cache.popitem(last=False)
                self._file[gone] = record
        flat = ids.reshape(-1).tolist()
        return torch.from_numpy(
            np.stack([self._cache[row][: self._dim] for row in flat])
        ).requires_grad_()

    def step(self, ids: Batch, leaf: torch.Tensor) -> None:
        assert leaf.grad is not None
        distinct, inverse = np.unique(ids.reshape(-1), return_inverse=True)
        summed = torch.zeros(len(distinct), self._dim).index_add_(
            0, torch.from_numpy(inverse.reshape(-1)), leaf.grad
        )
        records = torch.from_numpy(np.stack([self._cache[row] for row in distinct.tolist()]))
        self._steps += 1
        values, first, second = torch.split(records, self._dim, dim=1)
        first.mul_(0.9).add_(summed, alpha=0.1)
        second.mul_(0.999).addcmul_(summed, summed, value=0.001)
        rate = LR * (1 - 0.999**self._steps) ** 0.5 / (1 - 0.9**self._steps)
        values.sub_(rate * first / second.sqrt().add_(1e-8))
        for row, record in zip(distinct.tolist(), records.numpy(), strict=True):
            self._cache[row] = record.copy()

    def close(self) -> None:
        self._file.flush()


# --- training --------------------------------------------------------------------------------------


def tower(dim: int, hidden: int) -> nn.Module:
    return nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))


@dataclass(kw_only=True)
class Trained:
    seconds: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    losses: list[float] = field(default_factory=list)


class Training:
    """Steps of one kind of rows; `run` may be called again and goes on."""

    def __init__(
        self, rows: Rows, ids: Iterator[Batch], *, dim: int, hidden: int = 256, ahead: int = 0
    ) -> None:
        torch.manual_seed(0)
        self.rows = rows
        self._ids, self._ahead = ids, ahead
        self._waiting: list[Batch] = []
        self._towers = nn.ModuleList([tower(dim, hidden), tower(dim, hidden)])
        self._optimizer = torch.optim.AdamW(self._towers.parameters(), lr=LR, fused=True)

    def run(self, steps: int) -> Trained:
        done = Trained()
        cpu = time.process_time()
        for _ in range(steps):
            began = time.perf_counter()
            done.losses.append(self._step())
            done.seconds.append(time.perf_counter() - began)
        done.cpu_s = time.process_time() - cpu
        return done

    def _step(self) -> float:
        while len(self._waiting) <= self._ahead:
            with contextlib.suppress(StopIteration):
                self._waiting.append(next(self._ids))
                if self._ahead:
                    self.rows.announce(self._waiting[-1])
                continue
            break
        ids = self._waiting.pop(0)
        leaf = self.rows.get(ids)
        if not leaf.is_leaf:
            leaf.retain_grad()
        batch = ids.shape[1]
        normal = nn.functional.normalize
        q = normal(self._towers[0](leaf[:batch]), dim=-1)
        d = normal(self._towers[1](leaf[batch:]), dim=-1)
        loss = nn.functional.cross_entropy(q @ d.T * 20, torch.arange(batch))
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.rows.step(ids, leaf)
        return float(loss.detach())
