"""`ttf export`: what it says, what it refuses, and that nothing half-written has its final name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import ttf

if TYPE_CHECKING:
    from tests.conftest import Invoke


def test_an_export_has_the_fields_the_contract_names(invoke: Invoke, place: Path) -> None:
    found = invoke(["export", "run", "npy", "--out", "out", "--json"]).json()
    assert (found["format"], found["path"]) == ("npy", "out")
    assert (found["checked"]["rows"], found["checked"]["same_top10"]) == (16, 1.0)
    assert found["checked"]["max_difference"] < 1e-5
    about = json.loads(Path("out/export.json").read_text())
    assert about["made by"] == "ttf export" and about["checked"] == found["checked"]
    assert "settings" not in about and str(place) not in Path("out/export.json").read_text()
    vectors = np.load("out/vectors.npy")
    with ttf.load("run") as model:
        bank = np.load("bank.npz")["vectors"]
        assert np.abs(vectors - model.encode_documents(bank)).max() < 1e-6
    again = invoke(["export", "run", "npy", "--out", "out"])
    assert again.code == 2 and "--overwrite" in again.err
    assert invoke(["export", "run", "npy", "--out", "out", "--overwrite"]).code == 0
    assert sorted(p.name for p in place.iterdir()) == ["bank.npz", "out", "pairs.npz", "run"]


def test_a_killed_export_leaves_nothing_at_its_name_and_the_next_one_tidies(
    invoke: Invoke, place: Path
) -> None:
    words = [sys.executable, "-m", "ttf", "export", "run", "npy", "--out", "out"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if "write npy" in line:
                break
        os.kill(child.pid, signal.SIGKILL)
    assert not Path("out").exists()
    assert [p for p in place.iterdir() if p.name.startswith(".")]
    time.sleep(0.2)  # its exporter leaves with it
    assert invoke(["export", "run", "npy", "--out", "out"]).code == 0
    assert not [p for p in place.iterdir() if p.name.startswith(".")]


def test_smaller_vectors_say_what_they_lose_and_are_compared_as_the_folder_says(
    place: Path,
) -> None:
    done = ttf.export("run", "npy", out="out", dims=5, dtype="int8")
    assert (done.dim, done.checked.same_top10) == (5, 1.0)
    assert done.smaller["bytes_per_row"] == 5 and done.smaller["queries"] == 16
    recall = done.smaller["recall@10"]
    assert recall["loss"] == pytest.approx(recall["all"] - recall["smaller"])
    vectors, matrix = np.load("out/vectors.npy"), np.load("out/query.npy")
    assert vectors.dtype == np.int8 and matrix.shape == (8, 5)
    with ttf.load("run") as model:
        queries = model.encode_queries(np.load("pairs.npz")["X_val"])
        exact = queries @ model.encode_documents(np.load("bank.npz")["vectors"]).T
    near = (queries @ matrix) @ vectors.T.astype(np.float32)
    assert np.corrcoef(near.ravel(), exact.ravel())[0, 1] > 0.6
