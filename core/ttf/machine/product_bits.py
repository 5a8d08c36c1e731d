"""Digests of the bits of a few real calculations: processes with equal digests compute alike.

A run notes them at its start and compares them when it is resumed. They differ on another kind of
processor, with another build of a library, and with environment variables that choose kernels.
Legend: B rows, I inner, C columns, W all values.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ttf.machine.gemm import set_to, torch_threads

# Version of our own arithmetic. Raise it with every change after which an unchanged configuration
# gives other bits. 2: the candidates of a step are padded (docs/decisions/0018).
ARITHMETIC: Final = 2

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
