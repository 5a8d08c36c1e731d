"""A bit that flips in one of several processes is found, and named, before a checkpoint holds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.kit.ranks import small_data, train_ranks
from tests.kit.widely import wide

OBSERVER = """
import gc

import torch
import torch.distributed as dist
from ttf import hookimpl

WHERE = "weights"


@hookimpl
def ttf_step(record):
    if not dist.is_initialized() or dist.get_rank() != 1 or record.step != 5:
        return
    model = next(o for o in gc.get_objects() if type(o).__name__ == "TwoTower")
    weight = next(p for p in model.parameters() if p.requires_grad)
    if WHERE == "weights":
        weight.data.view(-1)[:1].view(torch.int32).bitwise_xor_(1 << 10)
    else:  # a processor that multiplies wrongly, from now on
        weight.register_hook(wrong)


def wrong(gradient):
    gradient = gradient.clone()
    gradient.view(-1)[:1].view(torch.int32).bitwise_xor_(1 << 10)
    return gradient
"""


@pytest.fixture
def flags(tmp_path: Path) -> dict[str, Any]:
    return {
        **small_data(tmp_path / "data"),
        "train.shards": 4,
        "train.steps": 300,
        "train.batch_size": 16,
        "device.threads": 1,
        "tower.query.name": "linear",
        "checkpoint.every_steps": 2,
        "evaluate.patience": 0,
        "observers": ["flip"],
    }


def plant(folder: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    info = folder / "flips-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flips\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ttf.v1]\nobserver.flip = flips\n")
    (folder / "flips.py").write_text(OBSERVER.replace('"weights"\n\n', f'"{where}"\n\n'))
    monkeypatch.syspath_prepend(str(folder))


def test_weights_that_differ_reach_no_checkpoint(
    tmp_path: Path, flags: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path / "plugin", monkeypatch, "weights")
    ended = train_ranks(tmp_path / "run", 3, flags)
    errors = [each.end["error"] for each in ended]
    assert {error["class"] for error in errors} == {"RanksDrifted"}, ended[0]
    assert "rank 1 has other weights than the other 2" in errors[0]["message"]
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert all(int(name.rpartition("-")[2]) <= 5 for name in kept), kept


@wide
def test_a_gradient_that_a_neighbour_computes_otherwise_is_found(
    tmp_path: Path, flags: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path / "plugin", monkeypatch, "gradient")
    ended = train_ranks(tmp_path / "run", 3, flags)
    errors = [each.end["error"] for each in ended]
    assert {error["class"] for error in errors} == {"RanksDrifted"}, ended[0]
    assert "step 257" in errors[0]["message"]
    assert "rank 1 differs from both neighbours" in errors[0]["message"]
