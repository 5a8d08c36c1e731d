"""bfloat16 copies of rows, and how far they are from them: bounds, not estimates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.data.vectors import row_norms

LARGEST = torch.finfo(torch.bfloat16).max
_SMALLEST = float(np.finfo(np.float32).smallest_normal)


@dataclass(frozen=True, kw_only=True)
class Rounded:
    """Rows in bfloat16, and upper bounds of the lengths of the rows and of what was cut off."""

    half: torch.Tensor
    norms: NDArray[np.float32]
    residuals: NDArray[np.float32]


def rounded(rows_ND: torch.Tensor) -> Rounded:
    """Of finite float32 rows. A value beyond bfloat16's range becomes its largest one: what is cut
    off is then large, and said so, but the product stays finite."""
    half = rows_ND.to(torch.bfloat16)
    rest_ND = rows_ND - half
    if not bool(torch.isfinite(rest_ND.sum())):
        half = rows_ND.clamp(-LARGEST, LARGEST).to(torch.bfloat16)
        rest_ND = rows_ND - half
    return Rounded(half=half, norms=upper_norms(rows_ND), residuals=upper_norms(rest_ND))


def upper_norms(rows_ND: torch.Tensor) -> NDArray[np.float32]:
    """Lengths of the rows, never too small; infinite where they are beyond float32.

    A sum of D squares in float32, in any order, is off by at most (D + 1) units of 2^-24 of
    itself, its root by half of that; twice as much is added, and the smallest normal number for
    what underflows.
    """
    norms = torch.linalg.vector_norm(rows_ND, dim=1).numpy()
    extreme = ~((norms > 1e-15) & (norms < 1e18))
    if extreme.any():
        norms[extreme] = row_norms(rows_ND.numpy()[extreme])
    grown = norms.astype(np.float64) * (1 + (rows_ND.shape[1] + 8) * 2.0**-23) + _SMALLEST
    with np.errstate(over="ignore"):
        return np.where(norms > 0, grown, 0.0).astype(np.float32)
