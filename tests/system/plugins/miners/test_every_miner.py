"""What every miner promises, held against a plain numpy scan."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ttf.contracts import Miner, MinerContext
from ttf.data.in_memory import MemorySource
from ttf.data.vectors import from_float32, unit_rows
from ttf.errors import BadData, ConfigError
from ttf.host import plugins
from ttf.mining.answers import checked_search


@dataclass(frozen=True)
class Kind:
    name: str
    miner: str
    options: dict[str, Any] = field(default_factory=dict)
    deterministic: bool = True

    def make(self, **changes: Any) -> Miner:
        factory = plugins.miner(self.miner)
        granted: dict[str, Any] = {
            "threads": 2,
            "seed": 3,
            "deterministic": self.deterministic,
            "budget_bytes": 64 << 20,
        }
        context = MinerContext(**(granted | changes))
        return factory.create(factory.options_type(**self.options), context)

    def traits(self) -> Any:
        factory = plugins.miner(self.miner)
        context = MinerContext(
            threads=2, seed=3, deterministic=self.deterministic, budget_bytes=64 << 20
        )
        return factory.traits(factory.options_type(**self.options), context)


KINDS = [
    Kind("exact", "exact"),
    Kind("faiss-flat", "faiss"),
    Kind("faiss-hnsw", "faiss", {"kind": "hnsw", "M": 16}),
    Kind("faiss-ivf", "faiss", {"kind": "ivf", "nprobe": 16}),
    Kind("hnswlib", "hnswlib", {"M": 16}),
    Kind("hnswlib-free", "hnswlib", {"M": 16}, deterministic=False),
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    state = plugins.load("miner", chosen.miner).availability()
    if not state.ok:
        pytest.skip(state.reason)
    return chosen


Built = Callable[..., Miner]


@pytest.fixture
def built(kind: Kind, tmp_path: Path) -> Built:
    def build(rows: NDArray[Any], **changes: Any) -> Miner:
        miner = kind.make(**changes)
        miner.build(MemorySource(rows), tmp_path)
        return miner

    return build


def vectors(seed: int, rows: int, dim: int = 24) -> NDArray[np.float32]:
    """Unit rows in loose clusters, as embeddings lie."""
    centres = np.random.default_rng(7).standard_normal((20, dim)).astype(np.float32)
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((rows, dim)).astype(np.float32)
    return unit_rows(centres[rng.integers(0, 20, rows)] + own)


def best_rows(bank: NDArray[np.float32], queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    return np.argsort(-(queries @ bank.T), axis=1, kind="stable")[:, :k]


BANK = vectors(1, 5000)
QUERIES = vectors(2, 300)


def test_ids_and_scores_have_their_shapes_and_types(built: Built) -> None:
    ids, scores = built(BANK).search(QUERIES, 50)
    assert ids.shape == scores.shape == (300, 50)
    assert ids.dtype == np.int64
    assert scores.dtype == np.float32


def test_scores_are_dot_products_best_first(built: Built) -> None:
    ids, scores = built(BANK).search(QUERIES, 50)
    np.testing.assert_allclose(scores, np.einsum("qd,qkd->qk", QUERIES, BANK[ids]), atol=2e-6)
    assert (np.diff(scores, axis=1) <= 0).all()


def test_no_queries_get_no_answers(built: Built) -> None:
    ids, scores = built(BANK).search(np.empty((0, 24), np.float32), 5)
    assert ids.shape == scores.shape == (0, 5)


def test_a_bank_of_one_row_is_searched(built: Built) -> None:
    ids, scores = built(BANK[:1]).search(QUERIES[:3], 200)
    assert ids.tolist() == [[0], [0], [0]]
    np.testing.assert_allclose(scores[:, 0], QUERIES[:3] @ BANK[0], atol=1e-6)


def test_k_is_cut_to_the_bank_and_every_row_comes_once(built: Built) -> None:
    ids, _ = built(BANK[:70]).search(QUERIES[:20], 500)
    assert (np.sort(ids, axis=1) == np.arange(70)).all()


def test_a_search_that_comes_back_short_is_widened_until_it_is_not(
    kind: Kind, tmp_path: Path
) -> None:
    narrow = {"nprobe": 1} if kind.options.get("kind") == "ivf" else {}
    narrow |= {"M": 2, "ef_construction": 2, "ef_search": 1} if "M" in kind.options else {}
    miner = Kind(kind.name, kind.miner, kind.options | narrow, kind.deterministic).make()
    miner.build(MemorySource(BANK[:900]), tmp_path)
    ids, _ = checked_search(miner, QUERIES, 600, 900, name=kind.name)
    assert ids.shape == (300, 600)


def test_equal_rows_all_come_and_exact_miners_order_them_by_id(kind: Kind, built: Built) -> None:
    bank = np.concatenate([np.repeat(BANK[:3], 400, axis=0), BANK[3:900]])
    ids, _ = built(bank).search(BANK[:3], 60)
    if kind.traits().exact:
        for row in range(3):
            assert ids[row].tolist() == list(range(row * 400, row * 400 + 60))
    else:
        assert all(len(set(row)) == 60 for row in ids.tolist())


def test_recall_against_the_exact_answer(kind: Kind, built: Built) -> None:
    ids, _ = built(BANK).search(QUERIES, 20)
    truth = best_rows(BANK, QUERIES, 20)
    recall = np.mean([len(np.intersect1d(a, b)) / 20 for a, b in zip(ids, truth, strict=True)])
    assert recall >= (0.999 if kind.traits().exact else 0.85)


def test_two_builds_answer_bit_for_bit_alike_where_that_is_promised(
    kind: Kind, built: Built
) -> None:
    first, second = (built(BANK).search(QUERIES, 50) for _ in range(2))
    if kind.traits().deterministic:
        assert first[0].tobytes() == second[0].tobytes()
        assert first[1].tobytes() == second[1].tobytes()
    else:
        assert kind.name == "hnswlib-free"


def test_half_precision_banks_are_searched_as_what_they_hold(kind: Kind, tmp_path: Path) -> None:
    stored = from_float32(BANK[:500], "bfloat16")
    miner = kind.make()
    miner.build(MemorySource(stored, dtype="bfloat16"), tmp_path)
    ids, scores = miner.search(QUERIES[:5], 3)
    wide = (stored.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(scores, np.einsum("qd,qkd->qk", QUERIES[:5], wide[ids]), atol=1e-6)


def test_a_saved_index_answers_like_the_one_it_was(
    kind: Kind, built: Built, tmp_path: Path
) -> None:
    if not kind.traits().has_index:
        pytest.skip(f"{kind.name} has no index")
    miner = built(BANK)
    expected = miner.search(QUERIES, 30)
    folder = tmp_path / "index"
    folder.mkdir()
    miner.save(folder)
    after_save = miner.search(QUERIES, 30)
    loaded = kind.make()
    loaded.load(folder, MemorySource(BANK))
    for found in (after_save, loaded.search(QUERIES, 30)):
        assert (found[0] == expected[0]).all()
        assert (found[1] == expected[1]).all()


def test_an_index_that_cannot_fit_the_budget_is_refused_with_the_figure(
    kind: Kind, built: Built
) -> None:
    if not kind.traits().has_index:
        pytest.skip(f"{kind.name} has no index")
    with pytest.raises(ConfigError, match=r"needs about .* of memory, but the budget is 200 kB"):
        built(BANK, budget_bytes=200_000)


def test_a_closed_miner_says_that_it_is_closed(kind: Kind, built: Built) -> None:
    miner = built(BANK[:500])
    miner.close()
    with pytest.raises(ConfigError, match="it was not built, or it is closed"):
        miner.search(QUERIES[:2], 3)


def test_a_row_that_is_not_finite_is_named(kind: Kind, tmp_path: Path) -> None:
    bank = BANK[:500].copy()
    bank[321, 5] = np.inf
    bank[400] = np.nan
    miner = kind.make()
    with pytest.raises(BadData, match=r"vectors\[321\] in memory is not finite"):
        miner.build(MemorySource(bank), tmp_path)
        miner.search(QUERIES[:2], 3)


def test_the_bank_is_read_in_blocks(kind: Kind, tmp_path: Path) -> None:
    source = MemorySource(np.tile(BANK, (2, 1)))
    miner = kind.make(budget_bytes=12 << 20)
    miner.build(source, tmp_path)
    miner.search(QUERIES[:10], 10)
    assert source.largest_read <= 65536
    if kind.traits().has_index or kind.miner == "exact":
        assert source.largest_read <= 8192


def test_the_cost_grows_with_rows_and_queries(kind: Kind) -> None:
    factory = plugins.miner(kind.miner)
    options = factory.options_type(**kind.options)
    context = MinerContext(threads=2, seed=0, deterministic=True, budget_bytes=1 << 30)
    small = factory.estimate(10_000, 64, 100, 10, options, context)
    large = factory.estimate(1_000_000, 64, 10_000, 10, options, context)
    assert large.search_s > small.search_s
    assert large.build_s >= small.build_s
    assert large.disk_bytes >= small.disk_bytes


@pytest.mark.parametrize("module", ["exact_miner", "faiss_miner", "hnswlib_miner"])
def test_plugin_modules_are_light(module: str) -> None:
    code = (
        f"import sys, ttf_miners.{module}\n"
        "print([m for m in ('torch', 'numpy', 'faiss', 'hnswlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
