"""The exact scan against numpy: hypothesis looks for banks on which the running top k fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from hypothesis import given, settings, strategies as st

from ttf.contracts import MinerContext
from ttf.data.sources import MemorySource
from ttf.machine.gemm import errors, factors, is_float32
from ttf.mining.scan.float32_rows import exact_search
from ttf.mining.scan.score_floors import BLOCK_ROWS
from ttf_miners._exact_scan import ExactMiner
from ttf_miners._faiss_scan import FlatScan
from ttf_miners.faiss_miner import FaissOptions


def context(budget_bytes: int = 64 << 20) -> MinerContext:
    return MinerContext(threads=2, seed=0, deterministic=True, budget_bytes=budget_bytes)


@settings(max_examples=15, deadline=None)
@given(
    rows=st.integers(1, 3 * BLOCK_ROWS + 7),
    queries=st.integers(1, 40),
    k=st.integers(1, 400),
    levels=st.integers(1, 50),
    rising=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_ids_equal_a_stable_sort_also_with_ties_and_rising_scores(
    rows: int, queries: int, k: int, levels: int, rising: bool, seed: int
) -> None:
    """Small whole numbers have exact products, so that ties are real."""
    rng = np.random.default_rng(seed)
    bank = rng.integers(-levels, levels + 1, (rows, 4)).astype(np.float32)
    if rising:
        bank = bank[np.argsort(bank.sum(axis=1), kind="stable")]
    asked = rng.integers(-3, 4, (queries, 4)).astype(np.float32)
    expected = np.argsort(-(asked @ bank.T), axis=1, kind="stable")[:, :k]
    for miner in (ExactMiner(context()), FlatScan(FaissOptions(), context())):
        miner.build(MemorySource(bank), Path())
        ids, scores = miner.search(asked, k)
        assert (ids == expected).all()
        assert (scores == np.take_along_axis(asked @ bank.T, expected, axis=1)).all()


def test_answers_do_not_depend_on_budget_threads_or_what_else_is_asked() -> None:
    rng = np.random.default_rng(0)
    bank = rng.standard_normal((2 * BLOCK_ROWS + 5, 32)).astype(np.float32)
    asked = rng.standard_normal((BLOCK_ROWS // 2 + 3, 32)).astype(np.float32)
    whole = ExactMiner(context(1 << 30))
    whole.build(MemorySource(bank), Path())
    ids, scores = whole.search(asked, 20)
    small = ExactMiner(context(1))
    small.build(MemorySource(bank), Path())
    again = small.search(asked, 20)
    assert (again[0] == ids).all()
    assert (again[1] == scores).all()
    alone_context = MinerContext(threads=1, seed=0, deterministic=True, budget_bytes=1 << 26)
    one_thread = ExactMiner(alone_context)
    one_thread.build(MemorySource(bank), Path())
    again = one_thread.search(asked, 20)
    assert (again[0] == ids).all()
    assert (again[1] == scores).all()
    alone = small.search(asked[700:703], 20)
    assert (alone[0] == ids[700:703]).all()
    assert (alone[1] == scores[700:703]).all()


def test_settings_of_torch_are_left_as_they_were() -> None:
    before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    miner = ExactMiner(MinerContext(threads=1, seed=0, deterministic=True, budget_bytes=1 << 20))
    miner.build(MemorySource(np.eye(3, dtype=np.float32)), Path())
    miner.search(np.eye(3, dtype=np.float32), 2)
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == before


def test_the_product_chosen_is_a_float32_one() -> None:
    way = "medium" if is_float32("medium") else "highest"
    assert errors([way], *factors(256, 512, 256))[way] < 1e-5


@settings(max_examples=10, deadline=None)
@given(
    copies=st.integers(2, 400),
    others=st.integers(0, 9000),
    dim=st.sampled_from([3, 64, 257]),
    k=st.integers(1, 300),
    seed=st.integers(0, 2**31),
)
def test_the_search_for_authors_puts_equal_rows_in_order_wherever_they_lie(
    copies: int, others: int, dim: int, k: int, seed: int
) -> None:
    """In a product of matrices the last columns of a block are rounded otherwise."""
    rng = np.random.default_rng(seed)
    bank = rng.standard_normal((copies + others, dim)).astype(np.float32)
    same = np.sort(rng.choice(len(bank), copies, replace=False))
    bank[same] = rng.standard_normal(dim).astype(np.float32)
    ids, scores = exact_search(MemorySource(bank), bank[same[:2]], k)
    for row in (0, 1):
        places = np.flatnonzero(np.isin(ids[row], same))
        assert (ids[row, places] == same[: len(places)]).all()
        assert len(set(scores[row, places].tolist())) <= 1
    truth = np.sort(bank[same[:1]].astype(np.float64) @ bank.T.astype(np.float64))[0, ::-1]
    np.testing.assert_allclose(scores[0], truth[: ids.shape[1]], rtol=1e-4, atol=1e-4)
