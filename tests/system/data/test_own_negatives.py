"""The user's own hard negatives in real runs: they change the weights, and a crash does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tests.kit.widely import wide

import ttf
from ttf.testing._crashing import crashing


@wide  # a run with scores of a teacher has them too: test_teacher.py
def test_a_run_with_them_that_crashed_ends_with_the_same_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    bank = rng.standard_normal((300, 8)).astype(np.float32)
    pos = rng.integers(0, 300, 64)
    pairs = {
        "X_train": bank[pos] + 0.3 * rng.standard_normal((64, 8)).astype(np.float32),
        "pos_train": pos,
        "neg_train": rng.integers(0, 300, (64, 6)),
    }
    sets = {"miner.negatives": 0, "loss.memory_bank": 0, "calibrate.enabled": False}
    common: dict[str, Any] = {"bank": bank, "batch_size": 16, "threads": 1, "steps": 6}

    def run(name: str, tower: str = "linear", own: int = 4) -> ttf.Run:
        chosen = {**sets, "data.own_negatives": own}
        return ttf.train(pairs=pairs, out=tmp_path / name, tower=tower, sets=chosen, **common)

    whole, without = run("whole"), run("without", own=0)
    assert whole.summary["weights_sha256"] != without.summary["weights_sha256"]
    (tmp_path / "crash").mkdir()
    with crashing("tower", "linear", tmp_path / "crash") as tower:
        broken = run("broken", tower)
    assert [incident["class"] for incident in broken.summary["incidents"]] == ["segfault"]
    assert broken.summary["weights_sha256"] == whole.summary["weights_sha256"]
