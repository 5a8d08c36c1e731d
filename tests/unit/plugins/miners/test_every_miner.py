"""What the built-in miners promise beyond `ttf.testing`: memory, blocks, words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ttf.contracts import Miner, MinerContext
from ttf.data.sources import MemorySource
from ttf.data.vectors import unit_rows
from ttf.errors import ConfigError
from ttf.host import plugins
from ttf.mining.checked_answers import checked_search


@dataclass(frozen=True)
class Kind:
    name: str
    miner: str
    options: dict[str, Any] = field(default_factory=dict)
    deterministic: bool = True

    def make(self, **changes: Any) -> Miner:
        factory = plugins.usable("miner", self.miner)
        granted: dict[str, Any] = {
            "threads": 2,
            "seed": 3,
            "deterministic": self.deterministic,
            "budget_bytes": 64 << 20,
        }
        context = MinerContext(**(granted | changes))
        return factory.create(factory.options_type(**self.options), context)

    def traits(self) -> Any:
        factory = plugins.usable("miner", self.miner)
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


BANK = vectors(1, 5000)
QUERIES = vectors(2, 300)


def test_a_search_that_comes_back_short_is_widened_until_it_is_not(
    kind: Kind, tmp_path: Path
) -> None:
    narrow = {"nprobe": 1} if kind.options.get("kind") == "ivf" else {}
    narrow |= {"M": 2, "ef_construction": 2, "ef_search": 1} if "M" in kind.options else {}
    miner = Kind(kind.name, kind.miner, kind.options | narrow, kind.deterministic).make()
    miner.build(MemorySource(BANK[:900]), tmp_path)
    ids, _ = checked_search(miner, QUERIES, 600, 900, name=kind.name)
    assert ids.shape == (300, 600)


def test_hnswlib_left_free_promises_no_bits(tmp_path: Path) -> None:
    free = Kind("hnswlib-free", "hnswlib", {"M": 16}, deterministic=False)
    assert not free.traits().deterministic
    miner = free.make()
    miner.build(MemorySource(BANK), tmp_path)
    ids, _ = miner.search(QUERIES, 20)
    truth = np.argsort(-(QUERIES @ BANK.T), axis=1, kind="stable")[:, :20]
    found = [len(np.intersect1d(a, b)) / 20 for a, b in zip(ids, truth, strict=True)]
    assert np.mean(found) >= 0.85


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
    with pytest.raises(ConfigError, match="the miner is closed"):
        miner.search(QUERIES[:2], 3)


def test_the_bank_is_read_in_blocks(kind: Kind, tmp_path: Path) -> None:
    source = MemorySource(np.tile(BANK, (2, 1)))
    miner = kind.make(budget_bytes=12 << 20)
    miner.build(source, tmp_path)
    miner.search(QUERIES[:10], 10)
    assert source.largest_read <= 65536
    if kind.traits().has_index or kind.miner == "exact":
        assert source.largest_read <= 8192
