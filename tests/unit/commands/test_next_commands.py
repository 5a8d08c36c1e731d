"""The command that `ttf data inspect` and `synth` propose names files that fit one another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.commands.test_data_commands import ROWS, pairs_file, ttf_data


def test_the_next_command_names_files_that_are_there(tmp_path: Path) -> None:
    path = pairs_file(tmp_path / "pairs.npz")
    assert "--bank FILE --plan" in ttf_data("inspect", path).stderr
    bank = tmp_path / "bank.npz"
    np.savez(bank, vectors=ROWS)
    assert f"--bank {bank} --plan" in ttf_data("inspect", path).stderr
    args = ("synth", "--out", tmp_path / "d", "--pairs", "9", "--val", "0", "--bank", "9")
    made = tmp_path / "d"
    proposed = f"Next: ttf train --pairs {made}/pairs.npz --bank {made}/bank.npz"
    assert proposed in ttf_data(*args).stderr
    assert proposed in ttf_data("inspect", made / "pairs.npz").stderr


WINDOWS: dict[str, Any] = {"seq_train": np.arange(20).reshape(10, 2), "pos_train": np.arange(10)}
CONTEXT: dict[str, Any] = {"vectors": ROWS[:30]}


@pytest.mark.parametrize(
    ("files", "proposed"),
    [
        ({"bank": {"vectors": ROWS}}, "--pairs {w} --bank {d}/bank.npz --context FILE --plan"),
        (
            {"bank": {"vectors": ROWS}, "context": CONTEXT},
            "--pairs {w} --bank {d}/bank.npz --context {d}/context.npz --plan",
        ),
        (
            {"docs": {"vectors": ROWS}, "context": CONTEXT},
            "--pairs {w} --bank {d}/docs.npz --context {d}/context.npz --plan",
        ),
        ({"one": {"vectors": ROWS}, "two": CONTEXT}, "--pairs {w} --bank FILE --context FILE"),
        ({"bank": {"vectors": ROWS[:9]}}, "--pairs {w} --bank FILE --context FILE --plan"),
        (
            {"bank": {"vectors": ROWS}, "context": {"vectors": ROWS[:19]}},
            "--pairs {w} --bank {d}/bank.npz --context FILE --plan",
        ),
    ],
    ids=["no context", "all there", "by name", "open", "a bank too small", "a context too small"],
)
def test_a_command_for_sequences_names_their_context_or_leaves_it_open(
    files: dict[str, Any], proposed: str, tmp_path: Path
) -> None:
    windows = tmp_path / "windows.npz"
    np.savez(windows, **WINDOWS)
    for name, arrays in files.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
    wanted = f"Next: ttf train {proposed.format(w=windows, d=tmp_path)}"
    said = ttf_data("inspect", windows).stderr
    assert wanted in said
    assert "Without --context, ttf reads these rows from the bank" in said
    if "FILE" not in proposed:
        for name in files:
            assert wanted in ttf_data("inspect", tmp_path / f"{name}.npz").stderr


def test_vectors_without_pairs_beside_them_are_a_bank_or_by_name_a_context(tmp_path: Path) -> None:
    for name in ("bank", "context"):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / f"{name}.npz", **CONTEXT)
    bank, context = (tmp_path / name / f"{name}.npz" for name in ("bank", "context"))
    assert f"--pairs FILE --bank {bank} --plan" in ttf_data("inspect", bank).stderr
    proposed = f"--pairs FILE --bank FILE --context {context} --plan"
    assert proposed in ttf_data("inspect", context).stderr


@pytest.mark.parametrize(
    "neighbour",
    [
        {"X_train": ROWS[:0], "pos_train": np.arange(0)},
        {"seq_train": np.zeros((0, 3), np.int64)},
        {"X_train": ROWS, "pos_train": np.full(40, np.inf)},
        {"X_train": ROWS, "pos_train": np.full(40, np.nan)},
        {"X_train": ROWS, "pos_train": np.array(["a"] * 40)},
        {"X_train": ROWS, "pos_train": np.zeros((40, 0), np.int64)},
        {"X_train": np.float32(1), "pos_train": np.int64(1), "vectors": np.float32(1)},
        {"vectors": ROWS[:, :0]},
        {"vectors": ROWS[:0]},
    ],
    ids=lambda arrays: " ".join(f"{n}{a.shape}{a.dtype}" for n, a in arrays.items()),
)
@pytest.mark.filterwarnings("error")
def test_a_bad_file_beside_a_good_one_changes_nothing(
    neighbour: dict[str, Any], tmp_path: Path
) -> None:
    path = pairs_file(tmp_path / "pairs.npz")
    np.savez(tmp_path / "bank.npz", vectors=ROWS)
    before = ttf_data("inspect", path)
    np.savez(tmp_path / "other.npz", **neighbour)
    after = ttf_data("inspect", path)
    assert after.exception is None
    assert after.stdout == before.stdout
    assert f"Next: ttf train --pairs {path}" in after.stderr
    assert ttf_data("inspect", tmp_path / "other.npz").exception is None
