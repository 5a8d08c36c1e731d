"""What a checkpoint says about refreshes is checked before it is followed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.kit.small_training import World, open_small

from ttf.config.schema import RunConfig
from ttf.errors import ArtifactDamaged
from ttf.mining.miner_results import CandidateTable
from ttf.training.checkpoint import Refresh, Totals
from ttf.training.refresh import Refreshes
from ttf.training.schedule import Window

EPOCH = Window(start=2, stop=4, mined=True)
TOTAL = 9


@pytest.fixture
def session(tmp_path: Path) -> Any:
    with open_small(tmp_path) as data:
        world = World(data)
        decided = SimpleNamespace(
            order=world.order,
            total_steps=TOTAL,
            precision=world.stepper.gradients.precision,
            plan=SimpleNamespace(micro_batch=world.micro_batch),
        )
        parts = SimpleNamespace(model=world.model, documents=world.documents)
        said: list[str] = []
        yield SimpleNamespace(
            data=data,
            config=RunConfig(),
            decided=decided,
            parts=parts,
            policy=world.policy,
            reporter=SimpleNamespace(note=said.append),
            said=said,
        )


def table(session: Any) -> CandidateTable:
    queries, rows = len(session.data.train), session.parts.documents.rows
    ids = (np.arange(queries)[:, None] + np.arange(1, 20)) % rows
    scores = np.tile(np.linspace(0.5, 0.1, 19, dtype=np.float32), (queries, 1))
    return CandidateTable(
        rows=np.arange(queries),
        ids=ids.astype(np.int64),
        scores=scores,
        positive_scores=np.full(queries, 0.9, np.float32),
        key="test",
    )


def test_equal_negatives_keep_their_weight_and_the_table_serves_twice_as_long(session: Any) -> None:
    totals = Totals()
    refreshes = Refreshes(session, totals)
    each = session.decided.order.steps_per_epoch
    assert refreshes.decide(EPOCH, table(session)).stop == EPOCH.stop
    later = Window(start=4, stop=4 + each, mined=True)
    assert refreshes.decide(later, table(session)).stop == later.stop + each
    assert refreshes.figures == {"changed": 0.0, "old_weight": 1.0, "serves_epochs": 2}
    assert "still have 100% of the weight" in session.said[-1]


@pytest.mark.parametrize(
    "sample", [[[10**9]] * 80, [[-1]] * 80, [[1]] * 3], ids=["too large", "negative", "too few"]
)
def test_a_sample_that_is_not_of_this_bank_is_damage(sample: list[list[int]], session: Any) -> None:
    totals = Totals(refresh=Refresh(start=0, stop=2, epochs=1, sample=sample))
    with pytest.raises(ArtifactDamaged, match="documents that the bank does not have"):
        Refreshes(session, totals).decide(EPOCH, table(session))


def test_a_window_ends_with_the_run_whatever_was_written(session: Any) -> None:
    totals = Totals(refresh=Refresh(start=0, stop=10**15, epochs=4, sample=[[1]]))
    assert Refreshes(session, totals).window_of(3, EPOCH).stop == TOTAL
    with pytest.raises(TypeError):
        totals.restore({"refresh": {"start": "0"}})
