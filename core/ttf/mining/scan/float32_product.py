"""The fastest product here that is a float32 one: probed for accuracy, never for speed."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def settings(num_threads: int) -> Iterator[None]:
    """Torch's threads per product, and its fastest float32 product, where that still is one."""
    before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(num_threads)
    torch.set_float32_matmul_precision(precision())
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.set_float32_matmul_precision(before[1])


@functools.cache
def precision() -> str:
    """ "medium" picks another library with full float32 accuracy on some machines (twice as fast
    on an AVX512 one, 2026-11) and reduced precision on others: measured, not assumed."""
    probe = torch.nn.functional.normalize(
        torch.sin(torch.arange(256 * 512, dtype=torch.float64) * 0.7).view(256, 512), dim=1
    )
    exact = probe @ probe.T
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        error = (probe.float() @ probe.float().T - exact).abs().max().item()
    finally:
        torch.set_float32_matmul_precision(before)
    return "medium" if error < 1e-5 else "highest"
