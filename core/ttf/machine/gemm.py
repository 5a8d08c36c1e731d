"""Products of matrices through each of the ways this process can take, ready to be timed.

A way is "highest" and "medium" (torch's float32 settings: its default BLAS, oneDNN), "numpy" (the
BLAS numpy brought) or "bf16". Legend: R rows, I inner, C columns.
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
Call = Callable[[], object]


@contextlib.contextmanager
def set_to(way: str) -> Iterator[None]:
    """torch's float32 setting meanwhile; nothing for the other ways."""
    if way not in ("highest", "high", "medium"):
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(way)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def factors(rows: int, inner: int, columns: int) -> tuple[Tensor, Tensor]:
    """Normal numbers, the same in every process; the second as weights lie: columns x inner."""
    drawn = torch.Generator().manual_seed(0)
    a_RI = torch.randn(rows, inner, generator=drawn)
    b_CI = torch.randn(columns, inner, generator=drawn)
    return a_RI, b_CI


def product(way: str, a_RI: Tensor, b_CI: Tensor) -> Call:
    """Computes a @ b.T into the same memory, call after call."""
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
    """The largest error against float64 by way, relative to the largest result."""
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
    """Whether a setting that allows torch less still gives full float32 products here: "medium"
    picks another library on some machines (twice as fast on an AVX512 one, 2026-11) and reduced
    precision on others. Measured for accuracy, never for speed."""
    return errors([way], *factors(64, 768, 64))[way] < MOST_ERROR


def repeated(call: Call, times: int) -> Call:
    """The same call several times over, for what is too short for the clock."""

    def calls() -> None:
        for _ in range(times):
            call()

    return calls
