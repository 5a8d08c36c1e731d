"""Matrix products in each of the ways this process can compute them, ready to be timed.

A way is "highest" or "medium" (float32 settings of torch: its default BLAS, oneDNN), "numpy"
(numpy's BLAS) or "bf16". Legend: R rows, I inner, C columns.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ttf.machine.processor import MOST_ERROR

FLOAT32: Final = ("highest", "medium", "numpy")
_LOT: Final = 64
Call = Callable[[], object]


@contextlib.contextmanager
def set_to(way: str) -> Iterator[None]:
    """Sets the float32 setting of torch within the block; does nothing for other ways."""
    if way not in ("highest", "high", "medium"):
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(way)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextlib.contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Sets the threads of torch within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def padded_rows(rows: int) -> int:
    """Returns the number of rows to compute a product with, where it differs from call to call: a
    power of two, or a multiple of 64.

    oneDNN keeps about 0.7 MB for every shape that it has met, and up to 1,024 of them.
    """
    return -(-rows // _LOT) * _LOT if rows > _LOT else 1 << max(rows - 1, 0).bit_length()


def padded(matrix_RI: Tensor) -> Tensor:
    """Returns the matrix with rows of zeros after its own, `padded_rows` in all."""
    missing = padded_rows(len(matrix_RI)) - len(matrix_RI)
    return torch.nn.functional.pad(matrix_RI, (0, 0, 0, missing)) if missing else matrix_RI


def factors(rows: int, inner: int, columns: int) -> tuple[Tensor, Tensor]:
    """Returns normally distributed matrices, equal in every process; the second is columns x
    inner."""
    drawn = torch.Generator().manual_seed(0)
    a_RI = torch.randn(rows, inner, generator=drawn)
    b_CI = torch.randn(columns, inner, generator=drawn)
    return a_RI, b_CI


def product(way: str, a_RI: Tensor, b_CI: Tensor) -> Call:
    """Returns a call that computes a @ b.T into the same output every time."""
    if way == "numpy":
        out_RC = np.empty((len(a_RI), len(b_CI)), np.float32)
        a, b = a_RI.numpy(), b_CI.numpy().T
        return lambda: np.matmul(a, b, out=out_RC)
    dtype = torch.bfloat16 if way == "bf16" else torch.float32
    left, right = a_RI.to(dtype), b_CI.to(dtype).T
    out = torch.empty(len(a_RI), len(b_CI), dtype=dtype)

    def call() -> Tensor:
        with set_to(way):
            return torch.mm(left, right, out=out)

    return call


def errors(ways: Sequence[str], a_RI: Tensor, b_CI: Tensor) -> dict[str, float]:
    """Returns the largest error against float64 by way, relative to the largest result."""
    exact_RC = a_RI.double() @ b_CI.double().T
    largest = exact_RC.abs().max()
    found = {}
    for way in ways:
        got = product(way, a_RI, b_CI)()
        got_RC = torch.from_numpy(got) if isinstance(got, np.ndarray) else got
        assert isinstance(got_RC, Tensor)
        found[way] = float((got_RC.double() - exact_RC).abs().max() / largest)
    return found


@functools.cache
def is_float32(way: str) -> bool:
    # "medium" allows torch reduced precision, but gives full float32 products on some machines:
    # there it selects another library (twice as fast on an AVX512 processor, 2026-11). Measures
    # accuracy, never speed.
    return errors([way], *factors(64, 768, 64))[way] < MOST_ERROR


def repeated(call: Call, times: int) -> Call:
    """Returns a call that repeats `call`, for calls too short for the clock."""

    def calls() -> None:
        for _ in range(times):
            call()

    return calls
