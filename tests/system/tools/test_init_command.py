"""`ttf init`: a run.toml that works for what lies there, or the command that comes first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ttf.config.resolve import resolve
from ttf.data.synth import SynthShape, write_synth
from ttf.tools.init.look import look

if TYPE_CHECKING:
    from tests.conftest import Invoke

SMALL = SynthShape(pairs=64, val=8, seq_len=3, dim=8, bank=50, seed=0)


def test_vectors_become_a_commented_file_that_trains(invoke: Invoke, tmp_path: Path) -> None:
    write_synth(tmp_path / "place" / "data", SMALL)
    made = invoke(["init", tmp_path / "place", "--json"])
    assert made.code == 0, made.err
    file = tmp_path / "place" / "run.toml"
    assert made.json()["run_toml"] == str(file)
    assert "64 training pairs, 8 validation pairs, 50 documents" in made.json()["found"]
    text = file.read_text()
    assert 'pairs = "data/pairs.npz"' in text and "# epochs = 8" in text
    assert resolve(file).config.model_dump(exclude={"data"}) == resolve(None).config.model_dump(
        exclude={"data"}
    )
    planned = invoke(["train", file, "--plan"])
    assert planned.code == 0, planned.err
    again = invoke(["init", tmp_path / "place"])
    assert again.code == 2 and "already exists" in again.err
    assert invoke(["init", tmp_path / "place", "--overwrite"]).code == 0


def test_folders_of_npy_and_parquet_are_vectors_as_in_training(tmp_path: Path) -> None:
    rows = np.eye(8, dtype=np.float32)
    (tmp_path / "npy" / "pairs").mkdir(parents=True)
    np.save(tmp_path / "npy" / "bank.npy", rows)
    np.save(tmp_path / "npy" / "pairs" / "X_train.npy", rows)
    np.save(tmp_path / "npy" / "pairs" / "pos_train.npy", np.arange(8))
    found = look(tmp_path / "npy").training
    assert found is not None and Path(found.bank or "").name == "bank.npy"

    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "parquet").mkdir()
    for name, table in (
        ("pairs", {"X_train": rows.tolist(), "pos_train": list(range(8))}),
        ("bank", {"vectors": rows.tolist()}),
    ):
        parquet.write_table(arrow.table(table), tmp_path / "parquet" / f"{name}.parquet")
    seen = look(tmp_path / "parquet")
    assert seen.training is not None and seen.texts is None
    (tmp_path / "parquet" / "pairs.parquet").unlink()
    assert look(tmp_path / "parquet").texts is None


def test_texts_get_the_command_that_encodes_them_first(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("question,answer\nwhat?,that\n")
    found = invoke(["init", tmp_path])
    assert found.code == 0 and not (tmp_path / "run.toml").exists()
    assert f"Next: ttf data encode {tmp_path}/faq.csv --encoder hash" in found.err
    (tmp_path / "faq.csv").write_text("what,that\nwhat?,that\n")
    assert "--query COLUMN --document COLUMN" in invoke(["init", tmp_path]).err


def test_a_model_that_lies_there_is_the_encoder(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("question,answer\nwhat?,that\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "modules.json").write_text("[]")
    texts = look(tmp_path).texts
    assert texts is not None
    from ttf.host import plugins

    usable = plugins.load("encoder", "sentence-transformers").availability().ok
    assert ("--model" in texts.command) is usable


def test_nothing_and_pairs_without_a_bank_are_told(invoke: Invoke, tmp_path: Path) -> None:
    nothing = invoke(["init", tmp_path])
    assert nothing.code == 3 and "no pairs of vectors" in nothing.err
    assert invoke(["init", tmp_path / "none"]).code == 3
    rows = np.zeros((4, 2), np.float32)
    np.savez(tmp_path / "pairs.npz", X_train=rows, pos_train=np.arange(4))
    lacking = invoke(["init", tmp_path])
    assert lacking.code == 3 and "which file is the bank cannot be told" in lacking.err
    assert "--bank FILE" not in lacking.err
    for name in ("one.npz", "other.npz", "few.npz"):
        rows = np.ones((2 if name == "few.npz" else 60, 8), np.float32)
        np.savez(tmp_path / name, vectors=rows)
    several = invoke(["init", tmp_path])
    assert "It may be one of: one.npz, other.npz. Choose: ttf train" in several.err
    sessions = np.arange(8).reshape(4, 2)
    np.savez(tmp_path / "pairs.npz", seq_train=sessions, pos_train=np.arange(4))
    assert "--items 8" in invoke(["init", tmp_path]).err
    assert not (tmp_path / "run.toml").exists()
