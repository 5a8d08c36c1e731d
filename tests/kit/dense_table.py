"""What an embedding table must equal: all rows in one tensor, and a program of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from ttf.data.embedding.records import initial
from ttf.data.embedding.table import EmbeddingTable

ROWS, DIM, BATCH = 300, 6, 24
ROUNDS, BATCHES = 4, 5


class DenseTable:
    """Row-wise Adagrad and assignments on a dense tensor, written from the definition."""

    def __init__(self, rows: int, dim: int, lr: float = 0.05) -> None:
        self.values = torch.from_numpy(initial(np.arange(rows), dim, 0))
        self._sums = torch.zeros(rows)
        self._lr = lr

    def apply_gradients(self, ids: torch.Tensor, gradients: torch.Tensor) -> None:
        summed = torch.zeros_like(self.values).index_add_(0, ids, gradients)
        touched = torch.zeros(len(self.values), dtype=torch.bool)
        touched[ids] = True
        self._sums[touched] += summed[touched].square().mean(1)
        moved = self._lr * summed[touched] / (self._sums[touched].sqrt() + 1e-10)[:, None]
        self.values[touched] -= moved

    def update(self, ids: torch.Tensor, values: torch.Tensor) -> None:
        self.values[ids] = values


Change = tuple[str, torch.Tensor, torch.Tensor]


def changes(rows: int = ROWS, dim: int = DIM, batches: int = BATCHES) -> Iterator[list[Change]]:
    """Rounds of changes; a sync follows each."""
    draw = np.random.default_rng(5)
    for _ in range(ROUNDS):
        made: list[Change] = []
        for number in range(batches):
            values = torch.from_numpy(draw.standard_normal((BATCH, dim)).astype(np.float32))
            if number % 3 == 2:
                made.append(("update", torch.from_numpy(draw.permutation(rows)[:BATCH]), values))
            else:
                made.append(
                    ("apply_gradients", torch.from_numpy(draw.integers(0, rows, BATCH)), values)
                )
        yield made


def states() -> list[torch.Tensor]:
    """All values before the first round, and after each."""
    dense = DenseTable(ROWS, DIM)
    found = [dense.values.clone()]
    for made in changes():
        for name, ids, values in made:
            getattr(dense, name)(ids, values)
        found.append(dense.values.clone())
    return found


def open_table(path: Path, at_version: int | None = None) -> EmbeddingTable:
    """With memory for a third of the rows."""
    return EmbeddingTable(
        path, rows=ROWS, dim=DIM, budget=ROWS * 16 + 100 * 160, at_version=at_version
    )


def write_table(path: Path, tell: Callable[[int], None]) -> None:
    """The program; `tell` hears the number of rounds that are durable. Continues where an earlier
    one ended."""
    with open_table(path) as table:
        tell(table.version)
        for number, made in enumerate(changes(), 1):
            if number <= table.version:
                continue
            for name, ids, values in made:
                table.prefetch(ids)
                getattr(table, name)(ids, values)
            assert table.sync(keep=number % 2 == 0) == number
            tell(number)
