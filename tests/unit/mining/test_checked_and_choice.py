"""Whom to believe, and whom to choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ttf.config.schema import MinerConfig
from ttf.contracts import MinerContext, MinerCost, VectorSource
from ttf.data.sources import VectorRef
from ttf.errors import BadAnswer, BadData, ExitCode
from ttf.mining.checked_answers import checked_search
from ttf.mining.choose import Offer, choose_miner, deadlines, winner
from ttf.mining.job import MiningJob


class Liar:
    """A miner that answers what it is told to."""

    def __init__(self, ids: Any, scores: Any) -> None:
        self.ids, self.scores = ids, scores

    def search(self, queries: Any, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        return self.ids, self.scores

    def build(self, source: VectorSource, workdir: Path) -> None: ...
    def save(self, path: Path) -> None: ...
    def load(self, path: Path, source: VectorSource) -> None: ...
    def close(self) -> None: ...


GOOD_IDS = np.array([[0, 1], [2, 3]])
GOOD_SCORES = np.ones((2, 2), np.float32)
QUERIES = np.zeros((2, 4), np.float32)


@pytest.mark.parametrize(
    ("ids", "scores", "complaint"),
    [
        (np.array([[0, 1], [2, -1]]), GOOD_SCORES, "row -1 for query 1 at rank 1"),
        (np.array([[0, 1], [2, 8 * 10**18]]), GOOD_SCORES, "rows 0 to 9"),
        (np.array([[0, 1], [10, 3]]), GOOD_SCORES, "row 10 for query 1 at rank 0"),
        (np.array([[0, 1], [3, 3]]), GOOD_SCORES, "row 3 twice for query 1"),
        (GOOD_IDS, np.array([[1, np.nan], [1, 1]], np.float32), "score nan for query 0"),
        (GOOD_IDS, np.array([[1, 1], [np.inf, 1]], np.float32), "score inf for query 1"),
        (GOOD_IDS.astype(np.int32), GOOD_SCORES, "ids with the type int32"),
        (GOOD_IDS[:, :1], GOOD_SCORES, r"ids with the type int64 and the shape \(2, 1\)"),
        (GOOD_IDS, GOOD_SCORES.astype(np.float64), "scores with the type float64"),
    ],
)
def test_wrong_answers_are_refused_by_name(ids: Any, scores: Any, complaint: str) -> None:
    with pytest.raises(BadAnswer, match=complaint) as refused:
        checked_search(Liar(ids, scores), QUERIES, 2, 10, name="liar")
    assert refused.value.miner == "liar"
    assert refused.value.exit_code == ExitCode.GAVE_UP


def test_right_answers_pass() -> None:
    ids, scores = checked_search(Liar(GOOD_IDS, GOOD_SCORES), QUERIES, 2, 10, name="liar")
    assert ids is GOOD_IDS
    assert scores is GOOD_SCORES


def test_queries_that_are_not_finite_are_not_the_miners_fault() -> None:
    queries = QUERIES.copy()
    queries[1, 2] = np.nan
    with pytest.raises(BadData, match="Query 1 of 2"):
        checked_search(Liar(GOOD_IDS, GOOD_SCORES), queries, 2, 10, name="liar")


def choose(miner: MinerConfig, rows: int, refreshes: int, budget: int) -> tuple[str, str]:
    return choose_miner(
        miner,
        rows=rows,
        dim=768,
        queries=36_000,
        refreshes=refreshes,
        threads=2,
        seed=0,
        budget_bytes=budget,
    )


def test_a_named_miner_needs_no_reason() -> None:
    assert choose(MinerConfig(name="hnswlib"), 1000, 1, 1 << 30) == ("hnswlib", "")


def test_small_banks_and_single_rounds_are_scanned() -> None:
    name, reason = choose(MinerConfig(), 20_000, 1, 1 << 34)
    assert name == "exact"
    assert "1 mining round" in reason
    assert "less than a third" in reason


FEW_WANTED = MinerConfig.model_validate({"k": 10, "hnswlib": {"ef_search": 64}})


def test_an_index_is_taken_once_it_pays_and_the_figures_are_told() -> None:
    name, reason = choose(FEW_WANTED, 2_000_000, 1000, 1 << 34)
    assert name == "hnswlib"
    assert "1000 mining rounds" in reason
    assert name in reason
    assert (name, reason) == choose(FEW_WANTED, 2_000_000, 1000, 1 << 34)
    assert choose(FEW_WANTED, 2_000_000, 1, 1 << 34)[0] == "exact"


def test_an_index_beyond_the_memory_budget_is_not_taken() -> None:
    name, reason = choose(FEW_WANTED, 2_000_000, 1000, 1 << 30)
    assert name == "exact"
    assert "need more than the memory budget" in reason


def test_an_index_that_finds_too_little_is_not_taken_and_named() -> None:
    hasty = MinerConfig.model_validate({"faiss": {"kind": "ivf", "nprobe": 1}})
    name, reason = choose(hasty, 2_000_000, 1000, 1 << 34)
    assert name == "exact"
    assert "(less than 0.95): faiss (0." in reason


def test_configured_options_are_what_is_costed() -> None:
    patient = MinerConfig.model_validate({"k": 10, "hnswlib": {"ef_search": 64, "M": 256}})
    assert choose(FEW_WANTED, 2_000_000, 1000, 1 << 35)[0] == "hnswlib"
    assert choose(patient, 2_000_000, 1000, 1 << 35)[0] == "exact"


def offer(name: str, build_s: float, search_s: float, recall: float = 0.99) -> Offer:
    return Offer(
        name=name,
        cost=MinerCost(
            build_s=build_s, search_s=search_s, anon_bytes=0, disk_bytes=0, recall=recall
        ),
    )


def test_the_winner_is_the_cheapest_over_all_refreshes_that_finds_enough() -> None:
    exact = offer("exact", 0, 10, 1.0)
    graph, lists, hasty = offer("graph", 50, 1), offer("lists", 5, 2.5), offer("hasty", 0, 0.1, 0.9)
    rounds = {n: winner(exact, [graph, lists, hasty], n).name for n in (1, 10, 100)}
    assert rounds == {1: "exact", 10: "lists", 100: "graph"}
    assert winner(exact, [hasty], 100) is exact
    assert winner(exact, [], 100) is exact


def context(budget: int) -> MinerContext:
    return MinerContext(threads=2, seed=0, deterministic=True, budget_bytes=budget)


def test_a_deadline_follows_the_estimate_and_has_a_floor() -> None:
    job = MiningJob(
        bank=VectorRef("bank.npz", "vectors"),
        queries="q.npy",
        k=10,
        miner="exact",
        context=context(1 << 30),
        out="out",
    )
    assert deadlines(1000, 8, 10)(job) == 600
    assert deadlines(10_000_000, 768, 100_000)(job) > 10_000
    assert deadlines(10_000_000, 768, 100_000, 7.5)(job) == 7.5
