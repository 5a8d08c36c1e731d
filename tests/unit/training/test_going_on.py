"""A run goes on with the towers that it had; others are refused before they take memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.kit.small_training import IDENTITY, MLP

from ttf.config.schema import TowerConfig
from ttf.contracts import TowerShape
from ttf.errors import ArtifactDamaged, NoCheckpoint
from ttf.rundir.run_folder import RunFolder
from ttf.training import checkpoint
from ttf.training.checkpoint import Snapshot
from ttf.training.going_on import refuse_larger_than_saved
from ttf.training.towers import Specs, TowerSpec

_SHAPE = TowerShape(in_dim=8, length=1, sequence=False, out_dim=8)
_HUGE = {"name": "gru", "hidden": 12_000}


def specs(query: Mapping[str, Any]) -> Specs:
    return Specs(
        query=TowerSpec("query", TowerConfig(**query), _SHAPE),
        doc=TowerSpec("doc", TowerConfig(**IDENTITY), _SHAPE),
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Of a run with a checkpoint of a few weights."""
    made = RunFolder.new(tmp_path / "run")
    made.config.write_text("")
    saved = Snapshot(step=3, model={"w": torch.ones(8, 8)}, optimizer={}, bank={}, best={})
    checkpoint.save(made.checkpoints, saved)
    made.close()
    return made


def test_towers_that_its_checkpoints_cannot_hold_are_refused(folder: RunFolder) -> None:
    with pytest.raises(ArtifactDamaged, match=r"run.toml is not the configuration .* need \d"):
        refuse_larger_than_saved(folder, specs(_HUGE))
    refuse_larger_than_saved(folder, specs(MLP))


def test_a_checkpoint_that_is_small_because_it_is_damaged_is_called_so(folder: RunFolder) -> None:
    (path,) = folder.checkpoints.glob("*/model.safetensors")
    path.write_bytes(b"")
    with pytest.raises(NoCheckpoint, match="no intact checkpoint"):
        refuse_larger_than_saved(folder, specs(_HUGE))


def test_a_run_whose_checkpoints_are_gone_is_refused_as_early(tmp_path: Path) -> None:
    folder = RunFolder.new(tmp_path / "run")
    refuse_larger_than_saved(folder, specs(_HUGE))  # nothing was ever saved: it begins
    folder.summary.write_text("{}")
    with pytest.raises(NoCheckpoint):
        refuse_larger_than_saved(folder, specs(_HUGE))
    folder.close()
