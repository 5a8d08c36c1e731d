"""The two passes against the definition: scores of every pair, sorted."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from ttf.data.sources import MemorySource
from ttf.data.vectors import UnitRows, from_float32, unit_rows
from ttf.errors import BadData
from ttf.machine.processor import FirstPass, first_pass, processor
from ttf.mining.scan.bank_scan import BankScan
from ttf.mining.scan.bf16_bank import open_half
from ttf.mining.scan.certified_top_k import Scan
from ttf.mining.scan.error_bounds import asked, rounded
from ttf.mining.scan.float32_rows import pair_scores, scan_one_by_one
from ttf.mining.scan.scan_counters import ScanTally
from ttf.mining.scan.score_floors import MIXED_BYTES

Rows = NDArray[np.float32]
both = pytest.mark.parametrize("first", ["bf16", "fp32"])


def expected(bank: Rows, queries: Rows, k: int) -> tuple[NDArray[np.int64], Rows]:
    scores = np.stack([pair_scores(bank, q) for q in queries])
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return ids, np.take_along_axis(scores, ids, axis=1)


def scan(
    bank: Any,
    first: FirstPass = "bf16",
    budget: int = 1 << 28,
    threads: int = 2,
    *,
    mixed: bool = True,
) -> Scan:
    source = MemorySource(bank) if isinstance(bank, np.ndarray) else bank
    half = open_half(source, None, print)
    return Scan(
        bank=half,
        threads=threads,
        budget_bytes=budget,
        first=first,
        mixed_bytes=MIXED_BYTES if mixed else 0,
    )


def check(bank: Rows, queries: Rows, k: int, first: FirstPass = "bf16") -> ScanTally:
    """As a small bank, and as one of which a sample is scored first; counts of both together."""
    both = ScanTally()
    true_ids, true_scores = expected(bank, queries, k)
    for mixed in (True, False):
        tally = ScanTally()
        ids, scores = scan(bank, first, mixed=mixed).top_k(queries, k, tally)
        assert (ids == true_ids).all()
        assert (scores == true_scores).all()
        assert tally.queries == len(queries)
        both.queries += tally.queries
        both.rescanned += tally.rescanned
    return both


def normal(rows: int, dim: int, seed: int = 0) -> Rows:
    return np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)


@both
@pytest.mark.parametrize("k", [1, 10, 200])
def test_answers_are_those_of_scoring_every_pair(first: FirstPass, k: int) -> None:
    tally = check(unit_rows(normal(20_000, 40)), unit_rows(normal(100, 40, 1)), k, first)
    assert tally.rate > 0.97


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
    check(normal(rows, 9), normal(queries, 9, 1), k, first)


@both
def test_no_queries_have_no_answers(first: FirstPass) -> None:
    ids, scores = scan(normal(10, 4), first).top_k(np.empty((0, 4), np.float32), 3, ScanTally())
    assert ids.shape == scores.shape == (0, 3)


@both
@pytest.mark.parametrize("scale", [1e-30, 1e-21, 1e-10, 1e10, 1e18])
def test_lengths_of_any_size(first: FirstPass, scale: float) -> None:
    bank = (normal(9000, 12) * scale).astype(np.float32)
    check(bank, normal(40, 12, 1), 20, first)
    check(bank, (normal(9, 12, 1) * 1e-12).astype(np.float32), 20, first)


@both
def test_rows_of_very_different_lengths(first: FirstPass) -> None:
    bank = normal(9000, 12)
    bank[::7] = 0
    bank[5000:5100] *= 1e15
    bank[100:200] *= 1e-15
    queries = normal(40, 12, 1)
    queries[3] = 0
    check(bank, queries, 50, first)


@both
def test_where_sums_would_overflow_rows_are_scored_one_by_one(first: FirstPass) -> None:
    bank = normal(5000, 6)
    bank[4000] *= 1e33
    queries = normal(20, 6, 1)
    queries[::2] *= 1e5
    tally = check(bank, queries, 5, first)
    assert tally.rescanned == 20


@both
def test_more_equal_rows_than_are_held(first: FirstPass) -> None:
    """One document 30,000 times: the smallest rows win, whatever it takes."""
    bank = unit_rows(normal(40_000, 8))
    bank[5000:35_000] = bank[77]
    queries = np.stack([bank[77], -bank[77], bank[100]])
    tally = check(bank, queries, 30, first)
    assert tally.rescanned >= 1


@both
def test_rows_that_differ_by_less_than_bfloat16_sees(first: FirstPass) -> None:
    rng = np.random.default_rng(3)
    centre = unit_rows(normal(1, 64))
    bank = centre + 1e-5 * rng.standard_normal((12_000, 64)).astype(np.float32)
    tally = check(bank.astype(np.float32), centre + 1e-3 * normal(4, 64, 5), 50, first)
    assert first == "fp32" or tally.rescanned == 8


@both
@pytest.mark.parametrize("order", ["rising", "falling"])
def test_a_sorted_bank_is_no_worse(first: FirstPass, order: str) -> None:
    bank = unit_rows(normal(20_000, 16))
    bank = bank[np.argsort(bank[:, 0])]
    if order == "falling":
        bank = bank[::-1].copy()
    check(bank, bank[[0, 10_000, 19_999]] + 0.1 * normal(3, 16, 1), 100, first)


@both
@pytest.mark.parametrize("mixed", [True, False])
def test_a_floor_that_was_too_high_is_found_out(first: FirstPass, mixed: bool) -> None:
    """The part that is scored first happens to hold nothing but what the queries look for."""
    bank = -np.abs(normal(12_000, 16))
    begins = np.arange(256) * (12_000 - 16) // 255
    sample = (begins[:, None] + np.arange(16)).ravel()
    bank[np.arange(0, 12_000, 3)[::30] if mixed else sample[::30]] *= -1
    queries, tally = np.abs(normal(5, 16, 1)), ScanTally()
    ids, scores = scan(bank, first, mixed=mixed).top_k(queries, 133, tally)
    true_ids, true_scores = expected(bank, queries, 133)
    assert (ids == true_ids).all()
    assert (scores == true_scores).all()
    assert tally.rescanned == 5


@both
def test_a_cluster_that_bfloat16_cannot_separate_is_scored_at_once(first: FirstPass) -> None:
    """Its rows are all found: no query is scanned again because its floor lies inside."""
    centre = unit_rows(normal(1, 64))
    bank = unit_rows(normal(30_000, 64))
    bank[np.random.default_rng(0).permutation(30_000)[:600]] = unit_rows(
        centre + 1e-3 * normal(600, 64, 2)
    )
    queries = unit_rows(np.concatenate([centre + 0.02 * normal(10, 64, 3), normal(90, 64, 4)]))
    assert check(bank, queries, 100, first).rate > 0.97


@settings(max_examples=15, deadline=None)
@given(
    rows=st.integers(1, 9000),
    levels=st.integers(1, 40),
    k=st.integers(1, 300),
    seed=st.integers(0, 2**31),
)
def test_ties_go_to_the_smaller_row(rows: int, levels: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bank = rng.integers(-levels, levels + 1, (rows, 4)).astype(np.float32)
    for first in ("bf16", "fp32"):
        check(bank, rng.integers(-3, 4, (20, 4)).astype(np.float32), k, first)


def test_answers_do_not_depend_on_how_the_work_is_cut() -> None:
    bank, queries = unit_rows(normal(9000, 33)), unit_rows(normal(1100, 33, 1))
    ids, scores = scan(bank).top_k(queries, 20, ScanTally())
    for other in (
        scan(bank, budget=1),
        scan(bank, budget=20 << 20),
        scan(bank, threads=1),
        scan(bank, threads=5),
        scan(bank, "fp32"),
    ):
        again = other.top_k(queries, 20, ScanTally())
        assert (again[0] == ids).all()
        assert (again[1] == scores).all()
    alone = scan(bank).top_k(queries[700:703], 20, ScanTally())
    assert (alone[1] == scores[700:703]).all()


def test_stored_types_and_views_are_searched_as_float32() -> None:
    bank, queries = normal(5000, 16), normal(200, 16, 1)
    half = from_float32(bank, "bfloat16")
    wide = rounded_back(half)
    ids, _ = scan(MemorySource(half, "bfloat16")).top_k(queries, 9, ScanTally())
    assert (ids == expected(wide, queries, 9)[0]).all()
    ids, _ = scan(UnitRows(MemorySource(bank))).top_k(queries, 9, ScanTally())
    assert (ids == expected(unit_rows(bank), queries, 9)[0]).all()


def rounded_back(bits: NDArray[np.uint16]) -> Rows:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


@both
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_row_that_is_not_finite_is_named(first: FirstPass, wrong: float) -> None:
    bank = normal(9000, 5)
    bank[8000, 2] = wrong
    with pytest.raises(BadData, match=r"vectors\[8000\] in memory is not finite"):
        scan(bank, first).top_k(normal(200, 5), 3, ScanTally())


def test_the_bound_is_one() -> None:
    """Of products as this machine makes them, also where all of a sum's terms have one sign."""
    for bank, queries in (
        (normal(500, 300), normal(40, 300, 1)),
        (np.abs(normal(500, 300)), np.abs(normal(40, 300, 1))),
        (normal(500, 300) * 1e-20, normal(40, 300, 1) * 1e-20),
    ):
        those = asked(queries.astype(np.float32), half=True)
        cut = rounded(torch.from_numpy(bank.astype(np.float32)))
        product = (those.vectors @ cut.half.T).double()
        true = np.stack(
            [pair_scores(bank.astype(np.float32), q.astype(np.float32)) for q in queries]
        )
        error = those.error(torch.from_numpy(cut.norms), torch.from_numpy(cut.residuals))
        off = (product - torch.from_numpy(true)).abs()
        assert bool((off <= error + 2.0**-8 * product.abs()).all())


def test_few_queries_need_no_copy_and_many_keep_one(tmp_path: Path) -> None:
    bank = normal(2000, 16)
    said: list[str] = []
    search = BankScan(
        MemorySource(bank),
        cache=tmp_path,
        threads=1,
        budget_bytes=1 << 26,
        say=said.append,
        first="bf16",
    )
    few, _ = search.top_k(bank[:5], 3, ScanTally())
    assert not list(tmp_path.iterdir())
    many, _ = search.top_k(bank[:200], 3, ScanTally())
    assert (many[:5] == few).all()
    assert [p.name for p in tmp_path.iterdir()] == ["half"]
    assert len(said) == 1
    search.close()


def test_the_last_resort_is_the_definition() -> None:
    bank, queries = normal(5000, 8).round(), normal(6, 8, 1).round()
    ids, scores = scan_one_by_one(open_half(MemorySource(bank), None, print), queries, 700, 2)
    true_ids, true_scores = expected(bank, queries, 700)
    assert (ids == true_ids).all()
    assert (scores == true_scores).all()


def test_long_rows_are_scored_in_spans() -> None:
    bank, query = normal(3, 20_001), normal(1, 20_001, 1)[0]
    assert pair_scores(bank, query) == pytest.approx(bank @ query, abs=1e-2)


def test_the_first_pass_follows_from_the_processor() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert first_pass() == ("bf16" if processor().bf16_unit else "fp32")
