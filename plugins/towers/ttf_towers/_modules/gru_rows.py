"""The order of a GRU's rows, and the rows of each step: shorter sequences cost less.

Rows are time-major and hold valid steps only, the longest sequence first: step t has rows offset[t]
to offset[t] + size[t], and sequence i has position i in every step.

Shapes: B samples, L steps, R rows (valid steps of all samples), D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Step:
    """Rows first..first + size. The first `carried` of them continue from rows `before`.."""

    first: int
    size: int
    before: int
    carried: int


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Consecutive steps with adjacent rows first..stop."""

    first: int
    stop: int
    steps: tuple[Step, ...]


class Rows:
    """The rows of one batch: from (B, L, D) and back; where sequences begin and end."""

    def __init__(self, batch: int, length: int, lengths_B: Tensor | None) -> None:
        self.batch = batch
        self.length = length
        self.order_B: Tensor | None = None
        self.sizes = (batch,) * length
        if lengths_B is not None:
            self.order_B = torch.argsort(lengths_B, descending=True, stable=True)
            self.sorted_B = lengths_B[self.order_B]
            alive_LB = torch.arange(length)[:, None] < self.sorted_B
            self.sizes = tuple(int(n) for n in alive_LB.sum(1) if n)
            self._place_R = (self.order_B * length + torch.arange(length)[:, None])[alive_LB]

    @property
    def count(self) -> int:
        return sum(self.sizes)

    @cached_property
    def last_B(self) -> Tensor:
        """The row of each sequence's last valid step, in the order of rows."""
        starts = torch.tensor([0, *accumulate(self.sizes[:-1])])
        if self.order_B is None:
            return starts[-1] + torch.arange(self.batch)
        return starts[self.sorted_B - 1] + torch.arange(self.batch)

    def pack(self, x_BLD: Tensor, dtype: torch.dtype) -> Tensor:
        if self.order_B is None:
            x_LBD = x_BLD.transpose(0, 1).to(dtype, memory_format=torch.contiguous_format)
            return x_LBD.flatten(0, 1)
        return x_BLD.flatten(0, 1).index_select(0, self._place_R).to(dtype)

    def unpack(self, x_RD: Tensor) -> Tensor:
        """Returns (B, L, D) with zeros in the padding; a view if there is no padding."""
        if self.order_B is None:
            return x_RD.view(self.length, self.batch, -1).transpose(0, 1)
        flat = x_RD.new_zeros(self.batch * self.length, x_RD.shape[1])
        return flat.index_copy(0, self._place_R, x_RD).view(self.batch, self.length, -1)

    def last(self, x_RD: Tensor) -> Tensor:
        """Returns the row of each sequence's last valid step; a view if all have equal length."""
        return x_RD[-self.batch :] if self.order_B is None else x_RD.index_select(0, self.last_B)

    def unsort(self, x_BD: Tensor) -> Tensor:
        """From the order of rows to the order of samples."""
        return x_BD if self.order_B is None else x_BD.index_select(0, torch.argsort(self.order_B))


@lru_cache(maxsize=16)
def chunks(sizes: tuple[int, ...], reverse: bool, rows: int) -> tuple[Chunk, ...]:
    """Returns the steps in the order of the direction, in chunks of about `rows` rows."""
    found: list[Chunk] = []
    steps: list[Step] = []
    for step in _steps(sizes, reverse):
        steps.append(step)
        if sum(s.size for s in steps) >= rows:
            found.append(_chunk(steps))
            steps = []
    return (*found, _chunk(steps)) if steps else tuple(found)


def _chunk(steps: list[Step]) -> Chunk:
    return Chunk(
        first=min(s.first for s in steps),
        stop=max(s.first + s.size for s in steps),
        steps=tuple(steps),
    )


def _steps(sizes: tuple[int, ...], reverse: bool) -> list[Step]:
    starts = [0, *accumulate(sizes)]
    found = []
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        before = t + 1 if reverse else t - 1
        inside = 0 <= before < len(sizes)
        found.append(
            Step(
                first=starts[t],
                size=sizes[t],
                before=starts[before] if inside else 0,
                carried=min(sizes[before], sizes[t]) if inside else 0,
            )
        )
    return found
