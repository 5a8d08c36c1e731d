"""`ttf.train` takes arrays, tensors and frames: they become files of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ttf

RNG = np.random.default_rng(8)
BANK = RNG.standard_normal((120, 8))
QUERIES = BANK + 0.3 * RNG.standard_normal(BANK.shape)
QUICK: dict[str, Any] = {
    "tower": "linear",
    "epochs": 1,
    "batch_size": 16,
    "threads": 1,
    "isolation": "none",
    "supervised": False,
}


class Frame:
    """What pandas and polars have in common."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._values, dtype=dtype)


def test_arrays_tensors_and_frames_train_and_can_be_used_again(tmp_path: Path) -> None:
    pairs = {"X_train": Frame(np.asfortranarray(QUERIES)), "pos_train": torch.arange(120)}
    names = np.array([f"d{row}" for row in range(120)], dtype=object)
    bank = {"vectors": torch.tensor(BANK, dtype=torch.bfloat16), "ids": names}
    run = ttf.train(pairs=pairs, bank=bank, out=tmp_path / "run", **QUICK)
    assert sorted(p.name for p in (run.path / "inputs").iterdir()) == ["bank.npz", "pairs.npz"]
    assert ttf.evaluate(run.path) == run.metrics
    with run.load() as model:
        found = model.search(QUERIES[:3], k=1)
    assert found.ids.tolist() == [[f"d{row}"] for row in found.rows[:, 0]]


def test_a_plain_array_is_a_bank_and_a_plan_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = {"X_train": QUERIES, "pos_train": np.arange(120, dtype=np.int16)}
    found = ttf.plan(pairs=pairs, bank=BANK, tower="linear", threads=1)
    assert found.facts.bank_rows == 120
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        (QUERIES, "pairs= takes a path or several arrays"),
        ({"X_train": np.array([{}, 1], dtype=object)}, "must be rows of numbers"),
        ({"X_train": np.float64(3)}, "must be rows of numbers"),
        ({"X_train": np.full((4, 8), 1e300)}, "too large for float32"),
    ],
    ids=["one array", "objects", "a number", "too large"],
)
def test_what_is_no_array_is_refused_and_leaves_no_folder(
    pairs: Any, says: str, tmp_path: Path
) -> None:
    with pytest.raises(ttf.TtfError, match=says):
        ttf.train(pairs=pairs, bank=BANK, out=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()
