"""Rows that are known by their number: items without vectors, and vectors with the number beside them.

A number takes two values of float32, which hold whole numbers up to 2**24 exactly: the number divided by
2**20, and the rest. They are the last two values of a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType, VectorSource
from ttf.data.vectors import (
    checked_ids,
    checked_out,
    checked_span,
    on_disk,
    to_float32,
    will_need,
)

if TYPE_CHECKING:
    from torch import Tensor

NUMBER_WIDTH: Final = 2
_LOW: Final = 1 << 20


class Numbered:
    """Another source of vectors as float32, with the number of each row beside it."""

    def __init__(self, source: VectorSource) -> None:
        self.source = source
        self.name, self.uri = source.name, source.uri
        self.shape: tuple[int, ...] = (source.shape[0], source.shape[1] + NUMBER_WIDTH)
        self.dtype: DType = "float32"

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        rows = checked_ids(ids, self.shape[0], self.name)
        return self._joined(self.source.gather(rows), rows, out)

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        return self._joined(self.source.read(start, stop), np.arange(start, stop), out)

    def _joined(
        self, stored: NDArray[Any], rows: NDArray[np.int64], out: NDArray[Any] | None
    ) -> NDArray[Any]:
        into = checked_out(out, (len(rows), self.shape[1]), "float32", self.name)
        into[:, :-NUMBER_WIDTH] = to_float32(stored, self.source.dtype)
        write_numbers(rows, into)
        return into

    def will_need(self, ids: NDArray[np.int64]) -> None:
        will_need(self.source, ids)

    @property
    def on_disk(self) -> bool:
        return on_disk(self.source)

    def fingerprint(self) -> str:
        return self.source.fingerprint()


class Items:
    """`[data] items = N`: rows of zeros but for their number; their vectors are trained."""

    name = "items"

    def __init__(self, rows: int, width: int) -> None:
        self.uri = f"data.items = {rows:,}"
        self.shape: tuple[int, ...] = (rows, width)
        self.dtype: DType = "float32"

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        rows = checked_ids(ids, self.shape[0], self.name)
        into = checked_out(out, (len(rows), self.shape[1]), "float32", self.name)
        into[:, :-NUMBER_WIDTH] = 0.0
        write_numbers(rows, into)
        return into

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        checked_span(start, stop, self.shape[0], self.name)
        return self.gather(np.arange(start, stop), out)

    def fingerprint(self) -> str:
        return f"items-{self.shape[0]}-{self.shape[1]}"


def write_numbers(numbers: NDArray[np.int64], into: NDArray[np.float32]) -> None:
    into[:, -2] = numbers // _LOW
    into[:, -1] = numbers % _LOW


def numbers_in(x: Tensor) -> Tensor:
    """(...,) int64 of inputs (..., D); padding, which is zero, reads as item 0."""
    import torch

    return x[..., -2].to(torch.int64) * _LOW + x[..., -1].to(torch.int64)


def whose_numbers(source: VectorSource) -> str:
    """A hint for row numbers that this source does not have."""
    if isinstance(source, Items):
        return (
            "Give the numbers that the items have in the training: --items is the largest plus one."
        )
    return "Use the context file for which these row numbers were made (--context)."
