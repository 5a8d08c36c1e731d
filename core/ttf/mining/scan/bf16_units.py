"""Whether this processor multiplies bfloat16 matrices in hardware. From its flags, never a timing:
two runs of one seed must take the same path."""

from __future__ import annotations

import functools
from typing import Literal

from ttf.machine.processor import processor

FirstPass = Literal["bf16", "fp32"]


@functools.cache
def first_pass() -> FirstPass:
    """In which numbers a scan's first pass runs here: bfloat16 where the processor has units for
    it and the product that torch makes of them keeps the error bound; else float32."""
    return "bf16" if processor().bf16_unit and _keeps_bound() else "fp32"


def _keeps_bound() -> bool:
    """A fixed product against float64: sums must be kept in float32 and rounded once, at the end.
    Terms of one sign and a long row: sums kept in bfloat16 would be off by percents."""
    import torch

    wave = torch.arange(96 * 1024, dtype=torch.float64).mul(0.7).sin().add(1.5)
    left = wave[: 32 * 1024].view(32, 1024).bfloat16()
    right = wave[32 * 1024 :].view(64, 1024).bfloat16()
    exact = left.double() @ right.double().T
    error = ((left @ right.T).double() - exact).abs() / exact
    return bool(error.max() <= 2.0**-8 + 1024 * 2.0**-23)
