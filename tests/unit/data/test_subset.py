"""`ttf data subset`: what belongs to the queries is cut with them, rows of the bank get new numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.data_files import BANK, pairs

from ttf.data.subset import Subset, subset
from ttf.errors import BadData


def test_grades_negatives_scores_and_ids_are_cut_with_their_pairs(tmp_path: Path) -> None:
    own = np.stack([np.arange(16) + 20, np.full(16, -1)], axis=1)
    given: dict[str, Any] = pairs(
        neg_train=own,
        rel_train=np.arange(16, dtype=np.float32) + 1,
        score_pos_train=np.arange(16, dtype=np.float32),
        score_neg_train=own.astype(np.float32),
        ids_train=np.arange(16) * 3,
        ids_val=np.array([f"query {n}" for n in range(8)]),
    )
    np.savez(tmp_path / "pairs.npz", **given)
    np.savez(tmp_path / "bank.npz", vectors=BANK)
    files = [str(tmp_path / name) for name in ("pairs.npz", "bank.npz", "a.npz", "b.npz")]
    subset(files[0], files[2], Subset(train=3, val=2), bank=files[1], bank_out=files[3])
    with np.load(files[2]) as cut, np.load(files[3]) as bank:
        assert cut["rel_train"].tolist() == [1, 2, 3]
        assert cut["score_pos_train"].tolist() == [0, 1, 2]
        assert cut["score_neg_train"].tolist() == own[:3].tolist()
        assert cut["ids_train"].tolist() == [0, 3, 6]
        assert cut["ids_val"].tolist() == ["query 0", "query 1"]
        assert cut["neg_train"][:, 1].tolist() == [-1, -1, -1]
        assert np.array_equal(bank["vectors"][cut["neg_train"][:, 0]], BANK[20:23])
        assert np.array_equal(bank["vectors"][cut["pos_train"]], BANK[:3])
    with pytest.raises(BadData, match="ids_val, which are strings"):
        subset(files[0], str(tmp_path / "a.zarr"), Subset(train=3, val=2))
    assert not (tmp_path / "a.zarr").exists()
