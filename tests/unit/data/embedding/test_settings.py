"""What may be given to a table, and why the rest is as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ttf.data.embedding.hot_rows import SLOT_BYTES
from ttf.data.embedding.table import EmbeddingTable
from ttf.errors import ConfigError


def opened(path: Path, budget: int | str = "auto", **sizes: Any) -> EmbeddingTable:
    return EmbeddingTable(path, rows=2000, dim=16, budget=budget, **sizes)


def test_every_value_that_was_not_given_has_its_reason(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as table:
        assert table.reasons.keys() == {"l1_mb", "l2_mb", "chunk", "sync_every", "auto_sync"}
        assert "they fit" in table.reasons["l1_mb"]
    with opened(tmp_path / "b", budget=150_000) as table:
        assert "what the budget of 150,000 bytes leaves" in table.reasons["l1_mb"]
    with opened(tmp_path / "c", l1_mb=0.1, l2_mb=1, chunk=100, sync_every=5) as table:
        assert table.reasons["l2_mb"] == table.reasons["chunk"] == "given"
        assert table.stats().most_hot_rows == 100_000 // (128 + SLOT_BYTES)


def test_with_sync_every_the_changes_of_so_many_calls_survive(tmp_path: Path) -> None:
    table = opened(tmp_path, sync_every=3)
    for number in range(7):
        table.update([number], torch.full((1, 16), float(number)))
    assert table.stats().syncs == 2
    table.abandon()
    with opened(tmp_path) as again:
        kept = again.get(np.arange(7))[:, 0]
    assert kept[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert kept[6] != 6


def test_a_wrong_parameter_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'l1_mb'"):
        opened(tmp_path, l1mb=3)
    with pytest.raises(ConfigError, match="chunk of an embedding table must be above 0"):
        opened(tmp_path, chunk=0)
    with pytest.raises(ConfigError, match="either budget or l1_mb"):
        opened(tmp_path, budget="1MB", l1_mb=3)


def test_every_so_many_epochs_a_line_tells_what_was_done_since_the_last(tmp_path: Path) -> None:
    said: list[str] = []
    with opened(tmp_path) as table:
        for _ in range(4):
            table.get(np.arange(100))
            figures = table.end_epoch(every=2, say=said.append)
    assert len(said) == 2
    assert "epoch 4: 100.0% of 200 rows were in memory; 0 read from disk" in said[1]
    assert figures is not None
    assert figures.requests == 200
