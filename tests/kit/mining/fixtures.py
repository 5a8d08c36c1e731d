"""A small mining job, and a plugin that spoils it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import FakeDistribution
from tests.kit.mining import saboteur

from ttf.contracts import MinerContext
from ttf.data.vector_ref import VectorRef
from ttf.mining.job import MiningJob


@pytest.fixture
def job(
    tmp_path: Path, fake_plugins: FakeDistribution, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MiningJob]:
    """30 queries of 200 documents in three chunks; whoever still runs at the end is ended."""
    fake_plugins.add("saboteur-dist", {"miner.saboteur": "saboteur_miner"})
    fake_plugins.module("saboteur_miner", saboteur.MODULE)
    monkeypatch.setenv("PYTHONPATH", str(fake_plugins.folder))
    saboteur.write_inputs(tmp_path)
    yield MiningJob(
        bank=VectorRef(str(tmp_path / "bank.npz"), "vectors"),
        queries=str(tmp_path / "queries.npy"),
        k=5,
        miner="exact",
        context=MinerContext(threads=1, seed=0, deterministic=True, budget_bytes=1 << 26),
        out=str(tmp_path / "found"),
        chunk=10,
    )
    left = saboteur.family()
    for process in left:
        process.kill()
    assert not left, "a worker, or what it started, was left behind"
