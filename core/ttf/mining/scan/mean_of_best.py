"""For many vectors, the mean of the k largest products with a few rows that are held in memory.

The other way round than `certified_top_k`: there the bank is streamed and the queries are few. Here
all scores of a tile are in memory at once, so the k-th largest of their group maxima is a floor
without a sample. As there, a bfloat16 product rules out most pairs by a proven bound, and float32
products of single pairs decide: the answers depend neither on the processor's units, nor on how the
vectors are cut into blocks.

Shapes: T vectors of a tile, N rows, G groups of M rows, C pairs.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.machine.gemm import is_float32, padded_rows, set_to, torch_threads
from ttf.machine.processor import FirstPass, first_pass
from ttf.mining.scan.error_bounds import SAFE, asked, rounded, upper_norms
from ttf.mining.scan.float32_rows import pair_scores

_TILE, _LEAST_TILE = 512, 64
_TILES_AT_ONCE = 4096  # Vectors of all threads' tiles: each has a score for every row.
_MEMBERS = 16
_LANES = 64  # The number of groups is a multiple: maxima are then computed over whole vectors.
_AT_ONCE = 1 << 21
_ROUNDED_AT_ONCE = 4096
_ROUNDING = 2.0**-8
_SLACK = 2.0**-20


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Pairs that do not count; `vectors` ascending, counted as in the call."""

    vectors: NDArray[np.int64]
    rows: NDArray[np.int64]

    def between(self, start: int, stop: int) -> LeftOut:
        low, high = np.searchsorted(self.vectors, (start, stop))
        return LeftOut(vectors=self.vectors[low:high] - start, rows=self.rows[low:high])


NOTHING = LeftOut(vectors=np.empty(0, np.int64), rows=np.empty(0, np.int64))


class MeanOfBest:
    """Safe to use from one thread at a time."""

    def __init__(
        self,
        rows: NDArray[np.float32],
        k: int,
        threads: int,
        first: FirstPass | None = None,
    ) -> None:
        """Rows must be finite. `first` None: chosen by processor."""
        self._rows = np.ascontiguousarray(rows)
        self._k = k
        self._threads = threads
        self._half = (first or first_pass()) == "bf16"
        missing = -len(rows) % (_MEMBERS * _LANES)
        dtype = torch.bfloat16 if self._half else torch.float32
        self._held = torch.zeros((len(rows) + missing, rows.shape[1]), dtype=dtype)
        self._longest, self._residual = torch.zeros(1), torch.zeros(1)
        # In parts: what rounding needs beside its result would be the most that a small run holds.
        for start in range(0, len(rows), _ROUNDED_AT_ONCE):
            self._hold(start, torch.from_numpy(self._rows[start : start + _ROUNDED_AT_ONCE]))
        self._tile_size = min(_TILE, max(_LEAST_TILE, _TILES_AT_ONCE // threads))
        # The scores of a tile, used again: allocated anew each time, they would fragment the heap.
        self._scratch: queue.SimpleQueue[torch.Tensor] = queue.SimpleQueue()
        for _ in range(threads):
            size = padded_rows(self._tile_size) * len(self._held)
            self._scratch.put(torch.empty(size, dtype=self._held.dtype))

    def _hold(self, start: int, rows_ND: torch.Tensor) -> None:
        here = slice(start, start + len(rows_ND))
        if self._half:
            cut = rounded(rows_ND)
            self._held[here] = cut.half
            norms = cut.norms
            self._residual = self._residual.clamp(min=float(cut.residuals.max()))
        else:
            self._held[here] = rows_ND
            norms = upper_norms(rows_ND)
        self._longest = self._longest.clamp(min=float(norms.max()))

    def of(self, vectors: NDArray[np.float32], left_out: LeftOut = NOTHING) -> NDArray[np.float32]:
        """The mean for each vector; 0 where every row is left out."""
        vectors = np.ascontiguousarray(vectors)
        starts = range(0, len(vectors), self._tile_size)
        out = np.zeros(len(vectors), np.float32)

        def tile(start: int) -> None:
            stop = min(start + self._tile_size, len(vectors))
            out[start:stop] = self._tile(vectors[start:stop], left_out.between(start, stop))

        workers = max(1, min(self._threads, len(starts)))
        with (
            set_to("medium" if is_float32("medium") else "highest"),
            torch_threads(max(1, self._threads // workers)),
            ThreadPoolExecutor(workers) as pool,
        ):
            for _ in pool.map(tile, starts):
                pass
        return out

    @torch.inference_mode()
    def _tile(self, tile_TD: NDArray[np.float32], left_out: LeftOut) -> NDArray[np.float32]:
        scratch = self._scratch.get()
        try:
            pairs = list(self._pairs(tile_TD, left_out, scratch))
        finally:
            self._scratch.put(scratch)
        vector_C = np.concatenate([vector for vector, _ in pairs])
        row_C = np.concatenate([row for _, row in pairs])
        if len(pairs) > 1:
            order = np.argsort(vector_C, kind="stable")
            vector_C, row_C = vector_C[order], row_C[order]
        return self._means(tile_TD, vector_C, row_C)

    def _pairs(
        self, tile_TD: NDArray[np.float32], left_out: LeftOut, scratch: torch.Tensor
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """All pairs that can be among a vector's k best: of vectors in order, then of those whose
        product may overflow."""
        query = asked(tile_TD, half=self._half)
        score_TN = query.scores(self._held, scratch)
        score_TN[:, len(self._rows) :] = -torch.inf
        score_TN[left_out.vectors, left_out.rows] = -torch.inf
        unsafe = ~(query.lengths * self._longest <= SAFE)
        error_T = query.error(self._longest, self._residual)[:, 0]
        groups_TMG = score_TN.view(len(tile_TD), _MEMBERS, -1)
        best_TG = groups_TMG.amax(1).float()
        floor_T = self._floors(best_TG.numpy(), error_T, unsafe).to(score_TN.dtype)
        # A floor of -inf (fewer than k groups have a row) is reached by what is left out as well.
        place_H = np.flatnonzero((best_TG >= floor_T.float()[:, None]).numpy())
        groups = best_TG.shape[1]
        vector_H, group_H = place_H // groups, place_H % groups
        row_HM = group_H[:, None] + np.arange(_MEMBERS) * groups
        found_HM = score_TN[torch.from_numpy(vector_H)[:, None], torch.from_numpy(row_HM)].float()
        reaches = (found_HM >= floor_T.float()[vector_H, None]) & (found_HM > -torch.inf)
        at_C, member_C = np.nonzero(reaches.numpy())
        yield vector_H[at_C], row_HM[at_C, member_C]
        for vector in unsafe.nonzero()[:, 0].tolist():
            mine = left_out.rows[left_out.vectors == vector]
            rows = np.setdiff1d(np.arange(len(self._rows)), mine)
            yield np.full(len(rows), vector), rows

    def _floors(
        self, best_TG: NDArray[np.float32], error_T: torch.Tensor, unsafe: torch.Tensor
    ) -> torch.Tensor:
        """Scores below these cannot be among the k best, whatever rounding did."""
        place = best_TG.shape[1] - self._k
        if place < 0:
            floor_T = torch.full((len(best_TG),), -torch.inf)
        else:
            floor_T = torch.from_numpy(np.partition(best_TG, place, axis=1)[:, place].copy())
            share = _ROUNDING if self._half else 0.0
            lowered = floor_T - floor_T.abs() * (share + _SLACK) - 2 * error_T
            floor_T = torch.where(floor_T.isinf(), floor_T, lowered)
        return torch.where(unsafe | floor_T.isnan(), torch.inf, floor_T)

    def _means(
        self, tile_TD: NDArray[np.float32], vector_C: NDArray[np.int64], row_C: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        counts_T = np.bincount(vector_C, minlength=len(tile_TD))
        begins_T = np.cumsum(counts_T) - counts_T
        # Largest first, whatever found them; then the sum of a vector has one order.
        table_TW = np.full(
            (len(tile_TD), max(self._k, int(counts_T.max(initial=0)))), np.inf, np.float32
        )
        place_C = np.arange(len(vector_C)) - begins_T[vector_C]
        table_TW[vector_C, place_C] = -self._scores(tile_TD, vector_C, row_C)
        table_TW.sort(axis=1)
        best_TK = table_TW[:, : self._k].astype(np.float64)
        best_TK[np.isinf(best_TK)] = 0.0
        means_T = -best_TK.sum(axis=1) / np.maximum(np.minimum(counts_T, self._k), 1)
        found: NDArray[np.float32] = means_T.astype(np.float32)
        return found

    def _scores(
        self, tile_TD: NDArray[np.float32], vector_C: NDArray[np.int64], row_C: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        score_C = np.empty(len(vector_C), np.float32)
        dim = tile_TD.shape[1]
        step = max(16, _AT_ONCE // (4 * dim))
        rows_CD, asked_CD = (np.empty((step, dim), np.float32) for _ in range(2))
        for at in range(0, len(vector_C), step):
            here = slice(at, min(at + step, len(vector_C)))
            num = here.stop - here.start
            self._rows.take(row_C[here], axis=0, out=rows_CD[:num], mode="clip")
            tile_TD.take(vector_C[here], axis=0, out=asked_CD[:num], mode="clip")
            score_C[here] = pair_scores(rows_CD[:num], asked_CD[:num])
        return score_C
