"""How far the first pass's scores can be from the float32 ones: proven, per query and row.

With q^ and x^ the rounded vectors, s^ their product as the machine sums it, and f the float32 score
that is returned:

    |f - s^| <= |f - q.x| + |q.x - q^.x^| + |q^.x^ - s^|
             <= g |q||x| + (|q - q^| |x^| + |q| |x - x^|) + g |q^||x^|

The middle is Cauchy-Schwarz on (q - q^).x^ + q.(x - x^). g bounds a sum of D products in float32,
in any order, fused or not: D + 1 roundings (products of two bfloat16 values are exact in float32),
each by one unit in the last place at most, 2^-23, so that also units which round to odd or towards
zero are covered: g = (D + 2) 2^-23 / (1 - (D + 2) 2^-23). Values below 2^-126 may be flushed to
zero: `_TINY` per term. What the bound is computed with is itself rounded, in float32: 2^-20 of it
is added. With |x^| <= |x| + |x - x^|, it is a sum of two products, of a number of the query with
one of the row; so a group of rows is bounded by its longest row and its largest residual.

Rounding s^ to bfloat16 (all that torch offers on a CPU) costs nothing where it is compared with a
threshold rounded the same way: rounding is monotone. Elsewhere it is 2^-8 of |s^|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.data.vectors import row_norms
from ttf.machine.gemm import padded

LARGEST = torch.finfo(torch.bfloat16).max
_SMALLEST = float(np.finfo(np.float32).smallest_normal)


@dataclass(frozen=True, kw_only=True)
class Rounded:
    """Rows in the type of the first pass, and upper bounds of their lengths and of the rounding
    residuals."""

    half: torch.Tensor
    norms: NDArray[np.float32]
    residuals: NDArray[np.float32]


def rounded(rows_ND: torch.Tensor) -> Rounded:
    """Rows must be finite float32. A value beyond bfloat16's range becomes its largest value: the
    residual is then large, and reported so, but the product stays finite."""
    half = rows_ND.to(torch.bfloat16)
    rest_ND = rows_ND - half
    if not bool(torch.isfinite(rest_ND.sum())):
        half = rows_ND.clamp(-LARGEST, LARGEST).to(torch.bfloat16)
        rest_ND = rows_ND - half
    return Rounded(half=half, norms=upper_norms(rows_ND), residuals=upper_norms(rest_ND))


def as_rounded(rows_ND: torch.Tensor) -> Rounded:
    """Finite float32 rows as they are, for a first pass in float32."""
    norms = upper_norms(rows_ND)
    return Rounded(half=rows_ND, norms=norms, residuals=np.zeros_like(norms))


def upper_norms(rows_ND: torch.Tensor) -> NDArray[np.float32]:
    """Upper bounds of the row lengths; infinite if beyond float32.

    A sum of D squares in float32, in any order, is off by at most (D + 1) units of 2^-24 of itself,
    its root by half of that; twice as much is added, and the smallest normal number for underflow.
    """
    norms = torch.linalg.vector_norm(rows_ND, dim=1).numpy()
    extreme = ~((norms > 1e-15) & (norms < 1e18))
    if extreme.any():
        norms[extreme] = row_norms(rows_ND.numpy()[extreme])
    grown = norms.astype(np.float64) * (1 + (rows_ND.shape[1] + 8) * 2.0**-23) + _SMALLEST
    with np.errstate(over="ignore"):
        return np.where(norms > 0, grown, 0.0).astype(np.float32)


_TINY = 2.0**-124
_OWN = 1 + 2.0**-20
SAFE = 1e37  # Above this product of lengths a float32 sum may overflow: no first pass then.


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Queries prepared for the first pass, and their part of the bound."""

    # Bfloat16 or float32, with rows of zeros after the T queries: see `padded`.
    padded_vectors: torch.Tensor
    lengths: torch.Tensor
    of_norm: torch.Tensor
    of_residual: torch.Tensor
    constant: torch.Tensor

    @property
    def vectors(self) -> torch.Tensor:
        """(T, D)"""
        return self.padded_vectors[: len(self.lengths)]

    def scores(self, rows_ND: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
        """(T, N) in `scratch`, which is flat and large enough for the padded queries."""
        shape = len(self.padded_vectors), len(rows_ND)
        if scratch is None:
            out = self.padded_vectors.new_empty(shape)
        else:
            out = scratch[: shape[0] * shape[1]].view(shape)
        torch.mm(self.padded_vectors, rows_ND.T, out=out)
        return out[: len(self.lengths)]

    def scores_by_row(
        self, rows_ND: torch.Tensor, scratch: torch.Tensor | None = None
    ) -> torch.Tensor:
        """(N, L) for T padded queries, in `scratch`, which is flat and large enough.

        A twentieth faster than `scores`: the smaller factor is the one that oneDNN reorders.
        """
        shape = len(rows_ND), len(self.padded_vectors)
        if scratch is None:
            out = self.padded_vectors.new_empty(shape)
        else:
            out = scratch[: shape[0] * shape[1]].view(shape)
        return torch.mm(rows_ND, self.padded_vectors.T, out=out)

    def error(self, norms: torch.Tensor, residuals: torch.Tensor) -> torch.Tensor:
        """(T, G) for G rows or groups of rows."""
        # No product of matrices, for which oneDNN would keep a kernel for every T.
        of_norms = torch.addcmul(self.constant[:, None], self.of_norm[:, None], norms)
        return of_norms.addcmul_(self.of_residual[:, None], residuals)

    def error_of(
        self, query: torch.Tensor, norms: torch.Tensor, residuals: torch.Tensor
    ) -> torch.Tensor:
        """(C,) for C pairs of a query's position and a row."""
        return (
            self.of_norm[query] * norms + self.of_residual[query] * residuals + self.constant[query]
        )


def asked(queries: NDArray[np.float32], *, half: bool) -> Asked:
    # Queries (T, D) must be finite.
    q_TD = torch.from_numpy(queries)
    if half:
        cut = rounded(q_TD)
        vectors, norms, residuals = cut.half, cut.norms, cut.residuals
    else:
        vectors, norms, residuals = q_TD, upper_norms(q_TD), np.zeros(len(queries), np.float32)
    dim = queries.shape[1]
    unit = (dim + 2) * 2.0**-23
    sums = unit / (1 - unit)
    q, r = norms.astype(np.float64), residuals.astype(np.float64)
    parts = (
        (r + sums * (2 * q + r)) * _OWN + dim * _TINY,
        (r + q + sums * (q + r)) * _OWN,
        dim * _TINY * (1 + q),
    )
    of_norm, of_residual, constant = (torch.from_numpy(part).float() for part in parts)
    return Asked(
        padded_vectors=padded(vectors),
        lengths=torch.from_numpy(norms),
        of_norm=of_norm,
        of_residual=of_residual,
        constant=constant,
    )
