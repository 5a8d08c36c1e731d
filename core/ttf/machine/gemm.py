"""Matrix products in each of the ways this process can compute them, ready to be timed, and digests
of the bits of a few calculations: processes with equal digests compute alike.

A run notes the digests at its start and compares them when it is resumed. They differ on another
kind of processor, with another build of a library, and with environment variables that choose
kernels.

A way is "highest" or "medium" (float32 settings of torch: its default BLAS, oneDNN), "numpy"
(numpy's BLAS) or "bf16". Legend: R and B rows, I inner, C
columns, W all values.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
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


# --- bits ------------------------------------------------------------------------------------------

# Version of our own arithmetic. Raise it with every change after which an unchanged configuration
# gives other bits. 2: the candidates of a step are padded (docs/decisions/0018). 3: the temperature
# falls (loss.temperature_schedule).
ARITHMETIC: Final = 3

# (B, I, C): a step of a recurrent tower, logits, a short inner dimension, one row. No size is a
# multiple of a vector, because kernels differ in what they do with the rest.
_SHAPES: Final = ((33, 515, 259), (65, 387, 515), (65, 19, 130), (1, 387, 259))
_FEW_SHAPES: Final = _SHAPES[:1]  # for oneDNN, which keeps 0.7 MB for each product
_VALUES: Final = 515 * 387
_LINE: Final = 10_003


def product_bits(device: torch.device) -> dict[str, str]:
    """By what computed them; takes about 30 ms.

    The host computes with one thread: kernels follow the processor, not the number of threads, and
    where other processes run, waiting for a second thread would cost most of the time.
    """
    wave_W = _wave()
    host_W = torch.from_numpy(wave_W)
    found = {}
    with torch_threads(1), torch.inference_mode():
        found["numpy"] = _digest(_numpy(wave_W))
        found["torch"] = _digest(_float32(host_W))
        found["bfloat16 products of torch"] = _digest(_products(host_W.bfloat16(), _FEW_SHAPES))
        found["functions of the C library"] = _digest(_c_library())
        if device.type != "cpu":
            found[f"torch on {device.type}"] = _digest(_float32(host_W.to(device)))
    return found


def _digest(results: Iterator[Any]) -> str:
    found = hashlib.sha256()
    for result in results:
        if isinstance(result, Tensor):
            result = result.cpu().reshape(-1).view(torch.uint8).numpy()
        found.update(np.ascontiguousarray(result).data)
    return found.hexdigest()[:16]


def _wave() -> NDArray[np.float32]:
    # The same everywhere: integers below 2**24 divided by a power of two are not rounded.
    mixed = (np.arange(_VALUES, dtype=np.uint64) * 2654435761 + 97) & 0xFFFFFF
    return (mixed.astype(np.float32) - np.float32(2**23)) / np.float32(2**22)


def _numpy(wave_W: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    for rows, inner, columns in _SHAPES:
        a_BI = wave_W[: rows * inner].reshape(rows, inner)
        b_CI = wave_W[: columns * inner].reshape(columns, inner)
        yield np.vecdot(b_CI, a_BI[0])
        yield np.einsum("bi,bi->b", a_BI, a_BI)
        # Small enough for one thread of OpenBLAS.
        yield a_BI[:33, :129] @ b_CI[:61, :129].T
    above = np.abs(wave_W[:_LINE]) + np.float32(0.5)
    yield from (above.sum(), np.sqrt(above), np.exp(above), np.log2(above))


def _float32(wave_W: Tensor) -> Iterator[Tensor]:
    # MKL and oneDNN, where torch has both.
    with set_to("highest"):
        yield from _products(wave_W, _SHAPES)
    with set_to("medium"):
        yield from _products(wave_W, _FEW_SHAPES)
    line = wave_W[:_LINE]
    above = line.abs() + 0.5
    yield from (line.sum(), line.exp(), line.sigmoid(), line.tanh(), above.log(), above.sqrt())
    yield from (torch.nn.functional.gelu(line), torch.lerp(line, above, line.sigmoid()))
    yield torch.addcdiv(line, line, above, value=0.3)
    rows = line[:10_000].view(20, 500)
    yield from (rows.log_softmax(1), torch.linalg.vector_norm(rows, dim=1), rows.sum(0))


def _products(wave_W: Tensor, shapes: Sequence[tuple[int, int, int]]) -> Iterator[Tensor]:
    for rows, inner, columns in shapes:
        a_BI = wave_W[: rows * inner].view(rows, inner)
        b_CI = wave_W[: columns * inner].view(columns, inner)
        out_BC = torch.addmm(b_CI[:, 0], a_BI, b_CI.T)
        yield from (a_BI @ b_CI.T, out_BC, out_BC @ b_CI, out_BC.T @ a_BI)


def _c_library() -> Iterator[NDArray[np.float64]]:
    points = [place / 997 for place in range(1, 998)]
    for function in (math.cos, math.exp, math.log):
        yield np.array([function(point) for point in points])
