"""Memory that is used again once nobody holds it: fresh pages cost as much as filling them.

An array from here is like any other: it, its views and the tensors made of it may be kept as long as
anybody likes. Only when the last of them is gone does its memory serve another array.
"""

from __future__ import annotations

import itertools
import math
import mmap
import weakref
from collections import deque
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType
from ttf.data.vectors import empty_rows, numpy_dtype

_WORTH_KEEPING: Final = 256 << 10
"""Smaller arrays are used again by the allocator itself."""


class Buffers:
    """Arrays of a few sizes, handed out again and again; safe to use from several threads."""

    def __init__(self) -> None:
        self._free: dict[int, deque[mmap.mmap]] = {}
        self._lent: dict[int, weakref.ref[NDArray[Any]]] = {}
        self._numbers = itertools.count()

    def rows(self, shape: tuple[int, ...], dtype: DType = "float32") -> NDArray[Any]:
        """Rows to be filled: what is in them is left over from before."""
        held = numpy_dtype(dtype)
        size = math.prod(shape) * held.itemsize
        if size < _WORTH_KEEPING:
            return empty_rows(shape, dtype)
        free = self._free.setdefault(size, deque())
        try:
            memory = free.pop()
        except IndexError:
            memory = _memory(size)
        array: NDArray[Any] = np.ndarray(shape, held, buffer=memory)
        lent, number = self._lent, next(self._numbers)

        def back(_: weakref.ref[NDArray[Any]]) -> None:
            lent.pop(number, None)
            free.append(memory)

        # Views and tensors refer to `array`, which refers to `memory`: while one lives, all do.
        lent[number] = weakref.ref(array, back)
        return array


def _memory(size: int) -> mmap.mmap:
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
