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


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["run", "nyp", "--out", "out"], 2, "Did you mean 'npy'?"),
        (["nix", "npy", "--out", "out"], 3, "nix"),
        (["run", "npy"], 2, "--out"),
        (["run", "npy", "--out", "bank.npz"], 2, "is a file"),
        (["run", "npy", "--out", "run"], 2, "not empty"),
        (["run", "npy", "--out", "run", "--overwrite"], 2, "not an earlier export"),
        (["run", "npy", "--out", "/dev/full"], 2, "device"),
        (["run", "npy", "--out", "out", "--calibrated"], 2, "for encoders"),
        (["run", "npy", "--out", "out", "--dims", "9"], 2, "8 dimensions"),
        (["run", "npy", "--out", "out", "--dims", "0"], 2, "--dims"),
        (["run", "npy", "--out", "out", "--dtype", "int4"], 2, "int8"),
        (["run", "npy", "--out", "out", "--set", "k=3"], 2, "no such option"),
        (["run", "npy", "--out", "out", "--set", "k"], 2, "option=value"),
        (["run", "npy", "--out", "out", "--bank", "nix.npz"], 3, "nix.npz"),
        (["run", "npy", "--out", "out", "--bank", "pairs.npz"], 3, "vectors"),
        (["run", "npy", "--out", "out", "--encoder", "nix"], 2, "no such folder"),
        (["run", "npy", "--out", "out", "--query-texts", "nix.txt"], 2, "no such file"),
        (["run", "npy", "--out", "out", "--document-texts", "pairs.npz"], 3, "pairs.npz"),
        (["run", "torch-export", "--out", "out", "--dims", "4"], 2, "exports none"),
        (["run", "torch-export", "--out", "out", "--calibrated"], 2, "ttf calibrate run"),
    ],
)
def test_bad_input_is_one_message_and_leaves_nothing(
    invoke: Invoke, place: Path, words: list[str], code: int, told: str
) -> None:
    before = sorted(p.name for p in place.iterdir())
    result = invoke(["export", *words])
    assert result.code == code, result.err
    assert told in result.err and result.err.count("error:") == 1
    assert "Traceback" not in result.err
    assert sorted(p.name for p in place.iterdir()) == before


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
