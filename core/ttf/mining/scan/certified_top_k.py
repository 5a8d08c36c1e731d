"""The k best rows of a bank for every query, exact, in two passes.

The first pass, in bfloat16 if the processor has units for it, collects for every query the rows
whose score may reach a floor, which is guessed from a part of the bank. The second pass scores
these in float32, as far as they can be among the best. If the k-th best of them reaches the floor,
no row that was left out can be better: the answer is certified. Other queries are scanned again with
a floor that is certain. Queries with too many rows to hold are scanned in float32, score by score.
All ways give the same answers, because all return the scores of `ttf.mining.scan.float32_rows`.

With ceilings, only rows whose score is below that of the query count. The first pass leaves out what
is above by more than rounding; the scores of the second decide. What lies so near to the ceiling that
the first pass cannot tell is counted in no certain floor, and perhaps wrongly in a guessed one.
"""

from __future__ import annotations

import contextlib
from collections import deque
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.machine.gemm import is_float32, set_to, torch_threads
from ttf.machine.processor import FirstPass
from ttf.mining.scan.bf16_bank import HalfBank
from ttf.mining.scan.deep_ceilings import deep_ceilings
from ttf.mining.scan.error_bounds import as_rounded, asked
from ttf.mining.scan.executors import executor
from ttf.mining.scan.first_pass import Block, Scratch, offer
from ttf.mining.scan.float32_rows import scan_one_by_one
from ttf.mining.scan.found_pairs import PAIR_BYTES, Bounds, Found
from ttf.mining.scan.scan_counters import ScanTally
from ttf.mining.scan.score_floors import BLOCK_ROWS, MIXED_BYTES, Part, Sample, blocks_of, part_of
from ttf.mining.scan.second_pass import Listed, PairScores
from ttf.mining.scan.shortlist import Shortlist
from ttf.mining.scan.shortlist_below import ShortlistBelow
from ttf.mining.scan.sort_keys import rows_and_scores

_TILE = 1024
_LATER_TILE = 128
_LATER_ROOM = 16
_AHEAD = 2
# Queries of a tile without floors: at first every row of a block is a candidate for each.
_EVERYTHING = 64

_List = Shortlist | ShortlistBelow


@dataclass(frozen=True, kw_only=True)
class _Round:
    """How some queries are scanned."""

    first: FirstPass
    tile: int
    room: int  # Pairs held per query, on average, before the floors are raised.


class _Answers:
    def __init__(
        self,
        queries: NDArray[np.float32],
        k: int,
        ceilings: NDArray[np.float32] | None,
        within: int | None,
    ) -> None:
        num = len(queries)
        self.queries = queries
        self.ceilings = ceilings
        self.within = within
        self.above = np.zeros(num, np.int64)  # Of a sample, the rows above the ceiling.
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

    def leave(self, tile: NDArray[np.int64], num_T: NDArray[np.int64]) -> None:
        """Leaves each query its first rows, so many."""
        over_TK = np.arange(self.k) >= num_T[:, None]
        self.ids[tile] = np.where(over_TK, -1, self.ids[tile])
        self.scores[tile] = np.where(over_TK, np.float32(-np.inf), self.scores[tile])


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A bank with the threads and the memory for searching it."""

    bank: HalfBank
    threads: int
    budget_bytes: int
    first: FirstPass
    mixed_bytes: int = MIXED_BYTES  # A bank of at most this size is read in another order.

    def top_k(
        self, queries: NDArray[np.float32], k: int, tally: ScanTally
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Best first, equal scores by smaller row; `k` is cut to the number of rows."""
        return self._found(_Answers(queries, min(k, self.bank.shape[0]), None, None), tally)

    def top_k_below(
        self,
        queries: NDArray[np.float32],
        k: int,
        ceilings: NDArray[np.float32],
        tally: ScanTally,
        within: int | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """`top_k` of the rows whose score is below the query's ceiling; where these are fewer, row
        -1 with the score -inf. `within`: only of the so many best rows of all."""
        k = min(k, self.bank.shape[0])
        return self._found(_Answers(queries, k, ceilings, within), tally)

    def _found(
        self, found: _Answers, tally: ScanTally
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        if len(found.queries) and found.k:
            self._answer(found, tally)
        return found.ids, found.scores

    def _answer(self, found: _Answers, tally: ScanTally) -> None:
        room = room_of(found.k)
        deep = np.zeros(len(found.queries), np.bool_)
        if found.ceilings is not None and self.first == "bf16":
            deep, found.above = deep_ceilings(
                self.bank, found.queries, found.ceilings, room, found.within, self.threads
            )
        firsts: tuple[tuple[FirstPass, NDArray[np.bool_]], ...] = (
            (self.first, ~deep),
            ("fp32", deep),
        )
        for first, these in firsts:
            how = _Round(first=first, tile=_TILE, room=room)
            half = first == "bf16"
            if these.any():
                part = part_of(self.bank, found.k, half=half, mixed_bytes=self.mixed_bytes)
                self._round(found, np.flatnonzero(these), how, part)
        tally.queries += len(found.queries)
        tally.rescanned += int((~found.done).sum())
        again = _Round(first=self.first, tile=_LATER_TILE, room=room)
        self._round(found, np.flatnonzero(~found.done & ~found.crowded), again, None)
        finer = _Round(first="fp32", tile=_LATER_TILE, room=_LATER_ROOM * room)
        self._round(found, np.flatnonzero(~found.done), finer, None)
        left = np.flatnonzero(~found.done)
        if len(left):
            found.ids[left], found.scores[left] = scan_one_by_one(
                self.bank,
                found.queries[left],
                found.k,
                self.threads,
                None if found.ceilings is None else found.ceilings[left],
                found.within,
            )

    def _round(
        self, found: _Answers, some: NDArray[np.int64], how: _Round, guess: Part | None
    ) -> None:
        """Scans some queries, as many at a time as the memory allows."""
        if found.ceilings is not None:
            # Searches that end early share tiles, and so do negative ceilings: bits of negative
            # numbers must be turned into an order first.
            some = some[np.lexsort((-found.ceilings[some], found.above[some]))]
        step = queries_per_pass(self.bank.shape[1], how, self.threads, self.budget_bytes)
        for start in range(0, len(some), step):
            part = some[start : start + step]
            tile = how.tile
            if guess is None and np.isneginf(found.floors[part]).any():
                tile = min(tile, _EVERYTHING)
            _Pass(self.bank, found, part, how, min(tile, step), self.threads).run(guess)


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

    def run(self, guess: Part | None) -> None:
        with (
            set_to("medium" if is_float32("medium") else "highest"),
            torch_threads(self._threads // self._workers),
            executor(self._workers, self._threads) as pool,
        ):
            self._pairs = list(pool.map(lambda tile: self._begun(tile, guess), self._tiles))
            self._read(blocks_of(self._bank.shape[0], guess))
            self._rank(pool)

    @torch.inference_mode()
    def _begun(self, tile: NDArray[np.int64], guess: Part | None) -> Found:
        queries = asked(self._found.queries[tile], half=self._half)
        floors = torch.from_numpy(self._found.floors[tile])
        every = self._found.ceilings
        ceilings = None if every is None else torch.from_numpy(every[tile])
        if isinstance(guess, Sample):
            floors = torch.maximum(floors, guess.floors(queries, ceilings, half=self._half))
        room = self._how.room
        within = self._found.within
        return Found(queries, floors, self._found.k, room, ceilings, within, half=self._half)

    def _read(self, blocks: list[tuple[range, int]]) -> None:
        # Reads the next blocks while the threads work on theirs; no thread waits for another.
        dtype = torch.bfloat16 if self._half else torch.float32
        scratch = [Scratch(len(self._tiles[0]), dtype) for _ in range(self._workers)]
        with contextlib.ExitStack() as stack:
            lines = [stack.enter_context(executor(1, self._threads)) for _ in scratch]
            under_way: deque[list[Future[None]]] = deque()
            for ids, rank in blocks:
                block = self._block(ids, rank)
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
    def _block(self, ids: range, rank: int) -> Block:
        read = self._bank.block(ids) if self._half else as_rounded(self._bank.full_block(ids))
        here = slice(ids.start, ids.stop, ids.step)
        self._bounds.norms[here] = torch.from_numpy(read.norms)
        self._bounds.residuals[here] = torch.from_numpy(read.residuals)
        return Block(ids, read, rank)

    @torch.inference_mode()
    def _offer(self, worker: int, block: Block, scratch: Scratch) -> None:
        for pairs in self._pairs[worker :: self._workers]:
            offer(pairs, block, scratch, self._bounds)

    def _rank(self, pool: Executor) -> None:
        # Pairs carry the position of their query in this pass.
        begins = np.cumsum([0, *(len(tile) for tile in self._tiles[:-1])]).tolist()
        queries = self._found.queries[np.concatenate(self._tiles)]
        scores = PairScores(self._bank, queries, pool, self._workers)
        lists = list(pool.map(self._shortlist, self._pairs))
        first = scores.of([one.first(begin) for one, begin in zip(lists, begins, strict=True)])
        more = scores.of(list(pool.map(self._more, lists, first, begins)))
        for _ in pool.map(self._take, self._tiles, self._pairs, lists, more):
            pass

    @torch.inference_mode()
    def _shortlist(self, pairs: Found) -> _List:
        if pairs.ceilings is not None:
            return ShortlistBelow(pairs, self._found.k, self._bounds)
        return Shortlist(pairs, self._found.k)

    @torch.inference_mode()
    def _more(self, one: _List, score_P: NDArray[np.float32], begin: int) -> Listed:
        return one.more(score_P, begin, self._bounds)

    def _take(
        self, tile: NDArray[np.int64], pairs: Found, one: _List, score_E: NDArray[np.float32]
    ) -> None:
        found = self._found
        found.crowded[tile] = pairs.given_up.numpy()
        if len(one.whole):
            whole = tile[one.whole]
            keys_WK, floors_W = one.best(score_E), pairs.floors.numpy()[one.whole]
            found.take(whole, keys_WK)
            if isinstance(one, Shortlist):
                found.done[whole] = found.scores[whole, -1] >= floors_W
                return
            needed_W = one.needed()
            last_W = found.scores[whole, np.maximum(needed_W - 1, 0)]
            found.done[whole] = (last_W >= floors_W) | (needed_W == 0)
            found.leave(whole, needed_W)


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
