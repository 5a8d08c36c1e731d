"""Scores of a teacher in a real run: they change the weights, and a crash does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tests.kit.widely import wide

import ttf
from ttf.testing._crashing import crashing


@wide
def test_a_taught_run_that_crashed_ends_with_the_same_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    bank = rng.standard_normal((300, 8)).astype(np.float32)
    pos = rng.integers(0, 300, 64)
    pairs = {
        "X_train": bank[pos] + 0.3 * rng.standard_normal((64, 8)).astype(np.float32),
        "pos_train": pos,
        "neg_train": rng.integers(0, 300, (64, 6)),
        "score_pos_train": rng.normal(5, 1, 64).astype(np.float32),
        "score_neg_train": rng.normal(0, 2, (64, 6)).astype(np.float32),
    }
    common: dict[str, Any] = {"bank": bank, "batch_size": 8, "threads": 1, "steps": 6}
    sets = {"miner.negatives": 0, "calibrate.enabled": False, "train.accumulate": 2}

    def run(name: str, tower: str = "linear", teacher: float = 0.5) -> ttf.Run:
        chosen = {**sets, "loss.teacher": teacher}
        return ttf.train(pairs=pairs, out=tmp_path / name, tower=tower, sets=chosen, **common)

    whole, without = run("whole"), run("without", teacher=0.0)
    assert whole.summary["weights_sha256"] != without.summary["weights_sha256"]
    (tmp_path / "crash").mkdir()
    with crashing("tower", "linear", tmp_path / "crash") as tower:
        broken = run("broken", tower)
    assert [incident["class"] for incident in broken.summary["incidents"]] == ["segfault"]
    assert broken.summary["weights_sha256"] == whole.summary["weights_sha256"]
