"""The k best rows below a ceiling against the definition: scores of every pair below it, sorted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from tests.kit.widely import wide

from ttf.data.sources import MemorySource
from ttf.data.vectors import unit_rows
from ttf.machine.processor import FirstPass
from ttf.mining.scan.bank_scan import BankScan
from ttf.mining.scan.bf16_bank import open_half
from ttf.mining.scan.certified_top_k import Scan
from ttf.mining.scan.float32_rows import pair_scores, scan_one_by_one
from ttf.mining.scan.scan_counters import ScanTally
from ttf.mining.scan.score_floors import MIXED_BYTES

Rows = NDArray[np.float32]
both = pytest.mark.parametrize("first", ["bf16", "fp32"])
INF = np.float32(np.inf)


def all_scores(bank: Rows, queries: Rows) -> Rows:
    return np.stack([pair_scores(bank, q) for q in queries])


def expected(
    scores: Rows, k: int, ceilings: Rows, within: int | None = None
) -> tuple[NDArray[np.int64], Rows]:
    below = np.where(scores < ceilings[:, None], scores, -INF)
    if within is not None:
        order = np.argsort(-scores, axis=1, kind="stable")
        np.put_along_axis(below, order[:, within:], -INF, axis=1)
    ids = np.argsort(-below, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(below, ids, axis=1)
    return np.where(np.isneginf(best), -1, ids), best


def check(
    bank: Rows,
    queries: Rows,
    k: int,
    ceilings: Rows,
    first: FirstPass = "bf16",
    *,
    threads: int = 2,
    budget: int = 1 << 28,
) -> ScanTally:
    """As a small bank, and as one of which a sample is scored first; whatever the rank, and among the
    best of all; counts of all together."""
    both_ways = ScanTally()
    found = all_scores(bank, queries)
    for mixed_bytes, within in ((MIXED_BYTES, None), (0, None), (MIXED_BYTES, 200), (0, 17)):
        true_ids, true_scores = expected(found, k, ceilings, within)
        tally = ScanTally()
        scan = Scan(
            bank=open_half(MemorySource(bank), None, print),
            threads=threads,
            budget_bytes=budget,
            first=first,
            mixed_bytes=mixed_bytes,
        )
        ids, scores = scan.top_k_below(queries, k, ceilings, tally, within)
        assert (ids == true_ids).all()
        assert (scores == true_scores).all()
        assert tally.queries == len(queries)
        both_ways.queries += tally.queries
        both_ways.rescanned += tally.rescanned
    return both_ways


def normal(rows: int, dim: int, seed: int = 0) -> Rows:
    return np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)


def at_ranks(bank: Rows, queries: Rows, seed: int = 3) -> Rows:
    """Ceilings that are scores of rows: at any rank, the first and the last ones more often."""
    scores = -np.sort(-all_scores(bank, queries), axis=1)
    rng = np.random.default_rng(seed)
    ranks = np.exp(rng.uniform(0, np.log(len(bank)), len(queries))).astype(np.int64) - 1
    ranks[::5] = len(bank) - 1 - ranks[::5]
    return scores[np.arange(len(queries)), ranks]


@both
@pytest.mark.parametrize("k", [pytest.param(1, marks=wide), 12, pytest.param(200, marks=wide)])
def test_answers_are_the_best_of_those_below(first: FirstPass, k: int) -> None:
    bank, queries = unit_rows(normal(20_000, 40)), unit_rows(normal(150, 40, 1))
    tally = check(bank, queries, k, at_ranks(bank, queries), first)
    assert tally.rate > 0.9


@both
def test_ceilings_above_everything_change_nothing_and_below_everything_leave_nothing(
    first: FirstPass,
) -> None:
    bank, queries = unit_rows(normal(9000, 24)), unit_rows(normal(140, 24, 1))
    scores = all_scores(bank, queries)
    ceilings = np.full(140, INF)
    ceilings[::2] = -INF
    ceilings[1::4] = 3.0
    ceilings[0::4] = scores[0::4].min(axis=1)
    ceilings[40:60] = np.sort(scores[40:60], axis=1)[:, 5]  # five rows, twelve asked for
    ceilings[60:70] = 0.0
    ceilings[70:80] = -0.0
    check(bank, queries, 12, ceilings, first)


@both
@pytest.mark.parametrize(
    ("rows", "queries", "k"),
    [
        (1, 1, 1),
        (1, 3, 5),
        (63, 2, 100),
        (65, 5, 65),
        (4097, 3, 1),
        (5000, 2, 4999),
        (4160, 130, 7),
    ],
)
def test_sizes_at_the_edges(first: FirstPass, rows: int, queries: int, k: int) -> None:
    bank, asked = normal(rows, 9), normal(queries, 9, 1)
    check(bank, asked, k, at_ranks(bank, asked), first)


@both
@pytest.mark.parametrize("scale", [1e-30, 1e-21, 1e-10, 1e10, 1e18])
def test_lengths_of_any_size(first: FirstPass, scale: float) -> None:
    bank, queries = (normal(9000, 12) * scale).astype(np.float32), normal(40, 12, 1)
    queries[7] = 0
    check(bank, queries, 20, at_ranks(bank, queries), first)


@both
def test_where_sums_would_overflow_rows_are_scored_one_by_one(first: FirstPass) -> None:
    bank, queries = normal(5000, 6), normal(20, 6, 1)
    bank[4000] *= 1e33
    queries[::2] *= 1e5
    check(bank, queries, 5, at_ranks(bank, queries), first)


@both
def test_more_rows_near_the_ceiling_than_are_held(first: FirstPass) -> None:
    """One document 30,000 times, at the ceiling, just above it and just below."""
    bank = unit_rows(normal(40_000, 8))
    bank[5000:35_000] = bank[77]
    queries = np.repeat(np.stack([bank[77], -bank[77], bank[100]]), 3, axis=0)
    equal = all_scores(bank[77:78], queries)[:, 0]
    ceilings = equal.copy()
    ceilings[1::3] = np.nextafter(equal[1::3], INF)
    ceilings[2::3] = np.nextafter(equal[2::3], -INF)
    check(bank, queries, 30, ceilings, first)


@both
def test_rows_that_differ_by_less_than_bfloat16_sees(first: FirstPass) -> None:
    bank = unit_rows(normal(1, 64)) + 1e-5 * normal(12_000, 64, 3)
    queries = unit_rows(normal(1, 64)) + 1e-3 * normal(4, 64, 5)
    check(bank, queries, 50, at_ranks(bank, queries), first)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 9000),
    levels=st.integers(1, 40),
    k=st.integers(1, 60),
    seed=st.integers(0, 2**31),
    first=st.sampled_from(["bf16", "fp32"]),
    threads=st.integers(1, 3),
    small=st.booleans(),
)
def test_ties_go_to_the_smaller_row_and_ties_with_the_ceiling_are_left_out(
    rows: int, levels: int, k: int, seed: int, first: FirstPass, threads: int, small: bool
) -> None:
    rng = np.random.default_rng(seed)
    bank = rng.integers(-levels, levels + 1, (rows, 4)).astype(np.float32)
    queries = rng.integers(-3, 4, (20, 4)).astype(np.float32)
    budget = 1 if small else 1 << 28
    check(bank, queries, k, at_ranks(bank, queries, seed), first, threads=threads, budget=budget)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(100, 12_000),
    dim=st.integers(2, 80),
    k=st.integers(1, 40),
    spread=st.sampled_from([1.0, 0.1, 0.01, 1e-4]),
    seed=st.integers(0, 2**31),
    first=st.sampled_from(["bf16", "fp32"]),
)
def test_any_bank_any_ceiling(
    rows: int, dim: int, k: int, spread: float, seed: int, first: FirstPass
) -> None:
    rng = np.random.default_rng(seed)
    centre = rng.standard_normal(dim)
    bank = (centre + spread * rng.standard_normal((rows, dim))).astype(np.float32)
    queries = (rng.standard_normal((30, dim)) + rng.integers(0, 2) * centre).astype(np.float32)
    ceilings = at_ranks(bank, queries, seed)
    ceilings[::3] += (spread * 1e-3 * rng.standard_normal(len(ceilings[::3]))).astype(np.float32)
    check(bank, queries, k, ceilings, first)


def test_the_last_resort_is_the_definition() -> None:
    bank, queries = normal(5000, 8).round(), normal(6, 8, 1).round()
    ceilings = at_ranks(bank, queries)
    half = open_half(MemorySource(bank), None, print)
    for within in (None, 900, 10):
        ids, scores = scan_one_by_one(half, queries, 700, 2, ceilings, within)
        true_ids, true_scores = expected(all_scores(bank, queries), 700, ceilings, within)
        assert (ids == true_ids).all()
        assert (scores == true_scores).all()


def test_a_bank_that_is_searched_more_than_once_answers_below_a_score(tmp_path: Path) -> None:
    bank, queries = unit_rows(normal(6000, 16)), unit_rows(normal(200, 16, 1))
    ceilings = at_ranks(bank, queries)
    search = BankScan(
        MemorySource(bank), cache=tmp_path, threads=1, budget_bytes=1 << 26, say=print, first="bf16"
    )
    true_ids, _ = expected(all_scores(bank, queries), 7, ceilings)
    for num in (5, 200, 5):  # in float32, then with a copy in bfloat16
        ids, _ = search.top_k_below(queries[:num], 7, ceilings[:num], ScanTally())
        assert (ids == true_ids[:num]).all()
    search.close()
