"""The exact scan: every query against every bank row, in tiles, with a running top k.

Selection, not the product, would be the bottleneck, so a block is first reduced to maxima over
groups of 64 rows; only groups that hold something above a query's current k-th score are looked
at, and what passes is collected and sorted rarely.

Shapes: T queries of a tile, N bank rows of a block, D width, H groups that hold something new.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ttf.contracts import MinerContext, VectorSource
from ttf_miners._rows import read_float32, ready

# One fixed shape for every product, short tiles and blocks padded with zeros: rounding, and with
# it the order of near ties, then depends neither on the budget nor on what else is searched for.
QUERY_TILE = 512
BANK_BLOCK = 2048
GROUP = 64


class ExactMiner:
    def __init__(self, context: MinerContext) -> None:
        self._context = context
        self._source: VectorSource | None = None

    def build(self, source: VectorSource, workdir: Path) -> None:
        self._source = source

    def search(
        self, queries: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        source = ready(self._source)
        k = min(k, source.shape[0])
        ids = np.empty((len(queries), k), np.int64)
        scores = np.empty((len(queries), k), np.float32)
        step = queries_per_pass(source.shape[1], k, self._context.budget_bytes)
        with _fast_float32():
            for start in range(0, len(queries), step):
                part = slice(start, start + step)
                scan = _Pass(queries[part], k)
                scan.run(source, self._context.threads)
                scan.collect(ids[part], scores[part])
        return ids, scores

    def save(self, path: Path) -> None:
        """Nothing to save: the bank is the index."""

    def load(self, path: Path, source: VectorSource) -> None:
        self._source = source

    def close(self) -> None:
        self._source = None


def queries_per_pass(dim: int, k: int, budget_bytes: int) -> int:
    """How many queries one reading of the bank can serve: whole tiles, at least one."""
    fixed = 4 * BANK_BLOCK * (2 * dim + 3 * QUERY_TILE)
    per_query = 4 * dim + 12 * (k + _spare(k))
    tiles = (budget_bytes - fixed) // (per_query * QUERY_TILE)
    return int(max(tiles, 1)) * QUERY_TILE


class _Pass:
    """One reading of the bank for some queries. Tiles are independent, and one thread each is
    faster than all threads on each: most steps of a selection are too small to share."""

    def __init__(self, queries: NDArray[np.float32], k: int) -> None:
        starts = range(0, len(queries), QUERY_TILE)
        self._count = len(queries)
        self._tiles = [_tile(queries[at : at + QUERY_TILE]) for at in starts]
        self._best = [_Best(k) for _ in starts]

    def run(self, source: VectorSource, threads: int) -> None:
        num_rows, dim = source.shape
        workers = max(1, min(threads, len(self._tiles)))
        block_ND = np.zeros((BANK_BLOCK, dim), np.float32)
        block = torch.from_numpy(block_ND).T
        scratch = [torch.empty(QUERY_TILE, BANK_BLOCK) for _ in range(workers)]
        with _threads(threads // workers), ThreadPoolExecutor(workers) as pool:
            for start in range(0, num_rows, BANK_BLOCK):
                count = min(BANK_BLOCK, num_rows - start)
                read_float32(source, start, start + count, block_ND[:count])
                shares = [
                    pool.submit(self._offer, share, workers, block, count, start, score_TN)
                    for share, score_TN in enumerate(scratch)
                ]
                for share in shares:
                    share.result()

    @torch.inference_mode()
    def collect(self, ids: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        for tile, best in enumerate(self._best):
            here = slice(tile * QUERY_TILE, min((tile + 1) * QUERY_TILE, self._count))
            found, value = best.ordered()
            ids[here] = found[: here.stop - here.start].numpy()
            scores[here] = value[: here.stop - here.start].numpy()

    @torch.inference_mode()
    def _offer(
        self, share: int, workers: int, block: Tensor, count: int, start: int, score_TN: Tensor
    ) -> None:
        for tile in range(share, len(self._tiles), workers):
            torch.mm(self._tiles[tile], block, out=score_TN)
            score_TN[:, count:] = -torch.inf
            self._best[tile].offer(score_TN, start)


def _tile(queries: NDArray[np.float32]) -> Tensor:
    tile_TD = torch.zeros(QUERY_TILE, queries.shape[1])
    tile_TD.numpy()[: len(queries)] = queries
    return tile_TD


def _spare(k: int) -> int:
    return max(k, 256)


class _Best:
    """The k best of each query so far, and behind them what may enter. Both in ascending id, so
    that whatever keeps the order of places breaks ties by the smaller id."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._scores = torch.full((QUERY_TILE, k + _spare(k)), -torch.inf)
        self._ids = torch.zeros((QUERY_TILE, k + _spare(k)), dtype=torch.int64)
        self._waiting = torch.zeros(QUERY_TILE, dtype=torch.int64)
        self._floor = torch.full((QUERY_TILE, 1), -torch.inf)
        self._empty = True

    def offer(self, score_TN: Tensor, first: int) -> None:
        """Takes the scores of rows first.. in; blocks come in ascending order.

        Only what is greater than the floor enters: an equal score has the larger id and loses.
        """
        if self._empty:
            self._take_all(score_TN, first)
            return
        groups = score_TN.view(QUERY_TILE, -1, GROUP)
        row_H, group_H = (groups.amax(dim=2) > self._floor).nonzero(as_tuple=True)
        if not len(row_H):
            return
        value_HG = groups[row_H, group_H]
        at, within = (value_HG > self._floor[row_H]).nonzero(as_tuple=True)
        row = row_H[at]
        counts = torch.bincount(row, minlength=QUERY_TILE)
        if int((self._waiting + counts).max()) > _spare(self._k):
            self._make_room(score_TN, first)
            return
        before = counts.cumsum(0) - counts
        slot = torch.arange(len(row)) - before[row] + self._k + self._waiting[row]
        self._scores[row, slot] = value_HG[at, within]
        self._ids[row, slot] = first + group_H[at] * GROUP + within
        self._waiting += counts

    def ordered(self) -> tuple[Tensor, Tensor]:
        """Ids and scores of the k best, best first."""
        self._keep_best(self._scores, self._ids)
        scores, places = torch.sort(self._scores[:, : self._k], dim=1, descending=True, stable=True)
        return self._ids.gather(1, places), scores

    def _make_room(self, score_TN: Tensor, first: int) -> None:
        if int(self._waiting.max()):
            self._keep_best(self._scores, self._ids)
            self.offer(score_TN, first)
        else:
            self._take_all(score_TN, first)

    def _take_all(self, score_TN: Tensor, first: int) -> None:
        """A whole block at once: early on, when most of it is news."""
        ids_N = torch.arange(first, first + score_TN.shape[1])
        self._keep_best(
            torch.cat([self._scores[:, : self._k], score_TN], dim=1),
            torch.cat([self._ids[:, : self._k], ids_N.expand_as(score_TN)], dim=1),
        )
        self._empty = False

    def _keep_best(self, scores: Tensor, ids: Tensor) -> None:
        places = _best_places(scores, self._k)
        self._ids[:, : self._k] = ids.gather(1, places)
        self._scores[:, : self._k] = scores.gather(1, places)
        self._scores[:, self._k :] = -torch.inf
        self._waiting.zero_()
        self._floor = self._scores[:, : self._k].amin(dim=1, keepdim=True)


def _best_places(scores: Tensor, k: int) -> Tensor:
    """Where the k largest of each row stand, in order of place; of equals the first ones.

    `topk` alone leaves open which of equals it takes, a stable sort costs five times as much.
    """
    least = scores.topk(k, dim=1, sorted=True).values[:, -1:]
    taken = scores >= least
    if int(taken.sum()) > k * len(scores):
        above = scores > least
        equal = scores == least
        room = k - above.sum(dim=1, keepdim=True)
        taken = above | (equal & (equal.cumsum(dim=1) <= room))
    return taken.nonzero()[:, 1].view(len(scores), k)


@contextlib.contextmanager
def _threads(num_threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _fast_float32() -> Iterator[None]:
    """Lets torch choose its fastest float32 product, where that still is one."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(_precision())
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@functools.cache
def _precision() -> str:
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
