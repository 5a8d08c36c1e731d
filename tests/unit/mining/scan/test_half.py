"""The bfloat16 copy of a bank: its bounds are bounds, it is made once, damage is met."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from filelock import FileLock
from numpy.typing import NDArray

from ttf.data.sources import MemorySource
from ttf.data.vectors import UnitRows, from_float32
from ttf.errors import BadData
from ttf.host import notices
from ttf.mining.scan.bf16_bank import HalfBank, open_half
from ttf.mining.scan.error_bounds import LARGEST, rounded
from ttf.rundir import verified_folders
from ttf.rundir.waiting_lock import Patience, wait_for

RNG = np.random.default_rng(0)
BANK = RNG.standard_normal((9001, 24)).astype(np.float32)


class Run:
    """One process that wants the copy."""

    def __init__(self, tmp_path: Path) -> None:
        self.cache = tmp_path / "cache"
        self.said: list[str] = []

    def __call__(self, rows: NDArray[np.float32] = BANK) -> HalfBank:
        return open_half(MemorySource(rows), self.cache, self.said.append)

    @property
    def folder(self) -> Path:
        (folder,) = [p for p in (self.cache / "half").iterdir() if p.is_dir()]
        return folder


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def exact_lengths(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    scale = np.maximum(np.abs(rows).max(axis=1, keepdims=True).astype(np.float64), 1e-300)
    return np.asarray(np.sqrt(((rows / scale) ** 2).sum(axis=1)) * scale[:, 0])


@pytest.mark.parametrize("scale", [1e-45, 1e-40, 1e-25, 1e-12, 1.0, 1e12, 1e19, 1e37])
def test_bounds_are_never_too_small(scale: float) -> None:
    rows = (RNG.standard_normal((300, 33)) * scale).astype(np.float32)
    rows[7] = 0
    block = rounded(torch.from_numpy(rows))
    lost = rows.astype(np.float64) - block.half.double().numpy()
    assert (block.norms >= exact_lengths(rows)).all()
    assert (block.residuals >= np.sqrt((lost**2).sum(axis=1))).all()
    assert block.norms[7] == block.residuals[7] == 0
    if scale > 1e-30:
        assert block.norms == pytest.approx(exact_lengths(rows), rel=1e-5)
        assert (block.residuals[:7] < block.norms[:7] * 2.0**-8).all()


def test_values_beyond_bfloat16_stay_finite_and_their_loss_is_said() -> None:
    rows = torch.zeros(2, 4)
    rows[0, 1] = torch.finfo(torch.float32).max
    block = rounded(rows)
    assert float(block.half[0, 1]) == LARGEST
    assert block.residuals[0] >= torch.finfo(torch.float32).max - LARGEST


def test_who_waits_for_another_process_is_told_while_waiting(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = Patience(say_after_s=0.0, busy_s=0.2, unseen_s=0.1)
    monkeypatch.setattr(verified_folders, "wait_for", partial(wait_for, patience=short))
    at_once: list[str] = []  # not through the miner's notes, which are read after the search
    monkeypatch.setattr(notices, "_listener", at_once.append)
    run()
    with FileLock(run.folder.with_suffix(".lock"), is_singleton=False):
        run()
    assert len(at_once) == 1 and "ttf waits for it" in at_once[0]
    assert "converts the bank to bfloat16 in each pass" in run.said[-1]


def test_with_or_without_a_cache_the_numbers_are_the_same(run: Run) -> None:
    kept, flying = run(), open_half(MemorySource(BANK), None, print)
    assert (kept.kept, flying.kept) == (True, False)
    assert kept.shape == flying.shape == BANK.shape
    for start, stop in ((0, 9001), (5, 5), (4095, 4097), (9000, 9001)):
        assert torch.equal(kept.half(start, stop), flying.half(start, stop))
        assert torch.equal(kept.half(start, stop), torch.from_numpy(BANK[start:stop]).bfloat16())
        assert torch.equal(kept.full(start, stop), torch.from_numpy(BANK[start:stop]))
        assert (kept.block(range(start, stop)).residuals == flying.residuals[start:stop]).all()
    some = np.array([8000, 3, 3])
    for one, other in (
        (kept.some(some), flying.some(some)),
        (kept.block(range(2, 9001, 3)), flying.some(np.arange(2, 9001, 3))),
        (flying.block(range(2, 9001, 3)), kept.some(np.arange(2, 9001, 3))),
    ):
        assert torch.equal(one.half, other.half)
        assert (one.norms == other.norms).all()
        assert (one.residuals == other.residuals).all()
    assert (kept.rows(some) == BANK[some]).all()
    assert (kept.norms == flying.norms).all()
    kept.close()


def test_the_second_run_uses_what_the_first_made(run: Run) -> None:
    run().close()
    before = (run.folder / "half.npy").stat().st_mtime_ns
    again = run()
    assert again.kept
    assert (run.folder / "half.npy").stat().st_mtime_ns == before
    (said,) = run.said
    assert "ttf saved a bfloat16 copy of the bank (508 kB) in" in said


@pytest.mark.parametrize("name", ["half.npy", "norms.npy", "residuals.npy"])
@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_damaged_copy_is_made_anew_and_said(run: Run, name: str, harm: str) -> None:
    run().close()
    file = run.folder / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    changes: dict[str, Callable[[], object]] = {
        "flip": lambda: file.write_bytes(data),
        "cut": lambda: os.truncate(file, 200),
        "remove": file.unlink,
    }
    changes[harm]()
    again = run()
    assert torch.equal(again.half(0, 9001), torch.from_numpy(BANK).bfloat16())
    assert "makes a new bfloat16 copy" in run.said[1]
    assert len(run.said) == 3
    assert run().kept
    assert len(run.said) == 3


def test_what_a_killed_maker_left_is_removed(run: Run) -> None:
    run().close()
    left = run.folder.with_name(f".tmp-{run.folder.name}-1.2")
    run.folder.rename(left)
    assert run().kept
    assert not left.exists()


def test_a_disk_with_little_room_is_left_alone_and_said(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**6))
    bank = run()
    assert not bank.kept
    assert torch.equal(bank.half(0, 10), torch.from_numpy(BANK[:10]).bfloat16())
    assert "does not save" in run.said[0]
    assert not list((run.cache / "half").glob("*/"))


def test_a_cache_that_cannot_be_used_is_said(run: Run) -> None:
    run.cache.write_text("a file")
    assert not run().kept
    assert "cannot be used" in run.said[0]


@pytest.mark.parametrize("cached", [True, False])
def test_a_row_that_is_not_finite_is_named(run: Run, cached: bool) -> None:
    rows = BANK.copy()
    rows[4321, 3] = np.nan
    with pytest.raises(BadData, match=r"vectors\[4321\] in memory is not finite"):
        _ = open_half(MemorySource(rows), run.cache if cached else None, print).norms
    if cached:
        assert not [p for p in (run.cache / "half").iterdir() if p.is_dir()]


def test_banks_at_unit_length_and_of_other_types_have_copies_of_their_own(run: Run) -> None:
    plain = MemorySource(BANK)
    unit = open_half(UnitRows(plain), run.cache, run.said.append)
    assert unit.norms == pytest.approx(np.ones(9001), rel=1e-4)
    run()
    assert len([p for p in (run.cache / "half").iterdir() if p.is_dir()]) == 2
    stored = MemorySource(from_float32(BANK, "bfloat16"), "bfloat16")
    assert not open_half(stored, None, print).residuals.any()


def test_only_vectors_have_a_copy() -> None:
    with pytest.raises(BadData, match="with the shape \\(rows, dim\\)"):
        open_half(MemorySource(np.zeros((3, 2), np.int64), "int64"), None, print)
