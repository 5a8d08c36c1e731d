"""The k best rows of a bank for every query, exact, in two passes.

The first pass, in bfloat16 if the processor has units for it, collects for every query the rows
whose score may reach a floor, which is guessed from a sample. The second pass scores these in
float32. If the k-th best of them reaches the floor, no row that was left out can be better: the
answer is certified. Other queries are scanned again with a floor that is certain. Queries with too
many rows to hold are scanned in float32, score by score. All ways give the same answers, because
all return the scores of `ttf.mining.scan.float32_rows`.
"""

from __future__ import annotations

import contextlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.machine.gemm import is_float32, padded_rows, set_to, torch_threads
from ttf.machine.processor import FirstPass
from ttf.mining.scan.bf16_bank import HalfBank
from ttf.mining.scan.error_bounds import asked, upper_norms
from ttf.mining.scan.first_pass import BLOCK_ROWS, PAIR_BYTES, Block, Bounds, Found, offer
from ttf.mining.scan.float32_rows import scan_one_by_one
from ttf.mining.scan.scan_counters import ScanTally
from ttf.mining.scan.score_floors import Sample, sampled
from ttf.mining.scan.second_pass import Scored, by_row, scored
from ttf.mining.scan.sort_keys import rows_and_scores

_TILE = 1024
_LATER_TILE = 128
_LATER_ROOM = 16
_SHARES = 4
_AHEAD = 2
# Queries of a tile without floors: at first every row of a block is a candidate for each.
_EVERYTHING = 64


@dataclass(frozen=True, kw_only=True)
class _Round:
    """How some queries are scanned."""

    first: FirstPass
    tile: int
    room: int  # Pairs held per query, on average, before the floors are raised.


class _Answers:
    def __init__(self, queries: NDArray[np.float32], k: int) -> None:
        num = len(queries)
        self.queries = queries
        self.k = k
        self.ids = np.empty((num, k), np.int64)
        self.scores = np.empty((num, k), np.float32)
        # Certain lower limits of each query's k-th best score.
        self.floors = np.full(num, -np.inf, np.float32)
        self.done = np.zeros(num, np.bool_)
        self.crowded = np.zeros(num, np.bool_)

    def take(self, tile: NDArray[np.int64], keys_TK: NDArray[np.int64]) -> None:
        self.ids[tile], self.scores[tile] = rows_and_scores(keys_TK)
        self.floors[tile] = np.maximum(self.floors[tile], self.scores[tile, -1])


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A bank with the threads and the memory for searching it."""

    bank: HalfBank
    threads: int
    budget_bytes: int
    first: FirstPass

    def top_k(
        self, queries: NDArray[np.float32], k: int, tally: ScanTally
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Best first, equal scores by smaller row; `k` is cut to the number of rows."""
        found = _Answers(queries, min(k, self.bank.shape[0]))
        if len(queries) and found.k:
            self._answer(found, tally)
        return found.ids, found.scores

    def _answer(self, found: _Answers, tally: ScanTally) -> None:
        room = room_of(found.k)
        sample = sampled(self.bank, found.k, half=self.first == "bf16")
        everyone = np.arange(len(found.queries))
        self._round(found, everyone, _Round(first=self.first, tile=_TILE, room=room), sample)
        tally.queries += len(everyone)
        tally.rescanned += int((~found.done).sum())
        again = _Round(first=self.first, tile=_LATER_TILE, room=room)
        self._round(found, np.flatnonzero(~found.done & ~found.crowded), again, None)
        finer = _Round(first="fp32", tile=_LATER_TILE, room=_LATER_ROOM * room)
        self._round(found, np.flatnonzero(~found.done), finer, None)
        left = np.flatnonzero(~found.done)
        if len(left):
            found.ids[left], found.scores[left] = scan_one_by_one(
                self.bank, found.queries[left], found.k, self.threads
            )

    def _round(
        self, found: _Answers, some: NDArray[np.int64], how: _Round, sample: Sample | None
    ) -> None:
        """Scans some queries, as many at a time as the memory allows."""
        step = queries_per_pass(self.bank.shape[1], how, self.threads, self.budget_bytes)
        for start in range(0, len(some), step):
            part = some[start : start + step]
            tile = how.tile
            if sample is None and np.isneginf(found.floors[part]).any():
                tile = min(tile, _EVERYTHING)
            _Pass(self.bank, found, part, how, min(tile, step), self.threads).run(sample)


class _Pass:
    """Reads the bank once for some queries. Tiles are independent: one thread per tile is faster
    than all threads on each tile."""

    def __init__(
        self,
        bank: HalfBank,
        found: _Answers,
        part: NDArray[np.int64],
        how: _Round,
        tile: int,
        threads: int,
    ) -> None:
        rounds = -(-len(part) // (tile * threads))  # so that all threads have as many
        size = max(1, -(-len(part) // (rounds * threads)))
        self._bank = bank
        self._found = found
        self._how = how
        self._tiles = [part[at : at + size] for at in range(0, len(part), size)]
        self._threads = threads
        self._workers = min(threads, len(self._tiles))
        self._half = how.first == "bf16"
        self._pairs: list[Found] = []
        rows = bank.shape[0]
        self._bounds = Bounds(norms=torch.empty(rows), residuals=torch.zeros(rows))

    def run(self, sample: Sample | None) -> None:
        with (
            set_to("medium" if is_float32("medium") else "highest"),
            torch_threads(self._threads // self._workers),
            ThreadPoolExecutor(self._workers) as pool,
        ):
            self._pairs = list(pool.map(lambda tile: self._begun(tile, sample), self._tiles))
            self._read()
            self._rank(pool)

    @torch.inference_mode()
    def _begun(self, tile: NDArray[np.int64], sample: Sample | None) -> Found:
        queries = asked(self._found.queries[tile], half=self._half)
        floors = torch.from_numpy(self._found.floors[tile])
        if sample is not None:
            floors = torch.maximum(floors, sample.floors(queries.vectors))
        return Found(queries, floors, self._found.k, self._how.room, half=self._half)

    def _read(self) -> None:
        # Reads the next blocks while the threads work on theirs; no thread waits for another.
        rows, largest = self._bank.shape[0], padded_rows(len(self._tiles[0]))
        dtype = torch.bfloat16 if self._half else torch.float32
        scratch = [torch.empty(largest * BLOCK_ROWS, dtype=dtype) for _ in range(self._workers)]
        with contextlib.ExitStack() as stack:
            lines = [stack.enter_context(ThreadPoolExecutor(1)) for _ in scratch]
            under_way: deque[list[Future[None]]] = deque()
            for start in range(0, rows, BLOCK_ROWS):
                block = self._block(start, min(start + BLOCK_ROWS, rows))
                while len(under_way) >= _AHEAD:
                    for share in under_way.popleft():
                        share.result()
                under_way.append(
                    [
                        line.submit(self._offer, worker, block, scratch[worker])
                        for worker, line in enumerate(lines)
                    ]
                )
            for share in chain.from_iterable(under_way):
                share.result()

    @torch.inference_mode()
    def _block(self, start: int, stop: int) -> Block:
        if self._half:
            read = self._bank.block(start, stop)
            rows_ND, norms_N = read.half, torch.from_numpy(read.norms)
            self._bounds.residuals[start:stop] = torch.from_numpy(read.residuals)
        else:
            rows_ND = self._bank.full(start, stop)
            norms_N = torch.from_numpy(upper_norms(rows_ND))
        self._bounds.norms[start:stop] = norms_N
        return Block(rows_ND, start, norms_N, self._bounds.residuals[start:stop])

    @torch.inference_mode()
    def _offer(self, worker: int, block: Block, scratch: torch.Tensor) -> None:
        for pairs in self._pairs[worker :: self._workers]:
            offer(pairs, block, scratch, self._bounds)

    def _rank(self, pool: ThreadPoolExecutor) -> None:
        # Pairs carry the position of their query in this pass.
        begins = np.cumsum([0, *(len(tile) for tile in self._tiles)])
        pairs = list(pool.map(self._settled, self._pairs, begins))
        every = np.concatenate(self._tiles)
        queries = self._found.queries[every]
        scores = scored(self._bank, queries, pairs, pool, _SHARES * self._workers)
        for _ in pool.map(lambda at: self._take(at, scores, begins), range(len(self._tiles))):
            pass

    @torch.inference_mode()
    def _settled(self, pairs: Found, begin: int) -> NDArray[np.int64]:
        query_C, row_C = pairs.settled(self._bounds)
        return by_row(row_C, query_C.astype(np.int64) + begin)

    def _take(self, at: int, scores: Scored, begins: NDArray[np.int64]) -> None:
        found, tile, pairs = self._found, self._tiles[at], self._pairs[at]
        counts_T, keys_TK = scores.best(int(begins[at]), int(begins[at + 1]), found.k)
        crowded_T = pairs.given_up.numpy()
        found.crowded[tile] = crowded_T
        whole_T = ~crowded_T & (counts_T >= found.k)
        found.take(tile[whole_T], keys_TK[whole_T])
        reached_T = found.scores[tile[whole_T], -1] >= pairs.floors.numpy()[whole_T]
        found.done[tile[whole_T]] = reached_T


def room_of(k: int) -> int:
    return max(4 * k, 1024)


def queries_per_pass(dim: int, how: _Round, threads: int, budget_bytes: int) -> int:
    """How many queries one read of the bank can serve, at least a few.

    A tile's scores and the sort of its pairs are needed once per thread, a query's rounded vector
    and its pairs once.
    """
    per_query = 8 * dim + 2 * how.room * PAIR_BYTES
    of_tile = 4 * BLOCK_ROWS + 6 * PAIR_BYTES * how.room
    of_blocks = (2 + _AHEAD) * 4 * BLOCK_ROWS * dim
    for tile in (how.tile, how.tile // 4, how.tile // 16):
        room = budget_bytes - of_blocks - threads * tile * of_tile
        if room >= threads * tile * per_query:
            return int(room // per_query)
    return max(1, how.tile // 16)
