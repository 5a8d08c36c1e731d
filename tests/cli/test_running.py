"""train, eval, search and resume as a person types them, on a set of a few kilobytes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.conftest import Invoke

D, BANK = 8, 40


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "pairs.npz",
        X_train=rng.standard_normal((64, D), np.float32),
        X_val=rng.standard_normal((16, D), np.float32),
        pos_train=np.arange(64) % BANK,
        pos_val=np.arange(16),
    )
    np.savez(
        tmp_path / "bank.npz",
        vectors=rng.standard_normal((BANK, D), np.float32),
        ids=np.arange(BANK) + 1000,
    )
    (tmp_path / "run.toml").write_text(
        "[data]\npairs = 'pairs.npz'\nbank = 'bank.npz'\n[tower.query]\nname = 'linear'\n"
        "[miner]\nname = 'exact'\nisolation = 'none'\n[train]\nsteps = 3\nbatch_size = 8\n"
        "[device]\nname = 'cpu'\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_from_file_set_and_flag_is_explained_by_its_run_toml(
    place: Path, invoke: Invoke
) -> None:
    result = invoke(
        ["train", "run.toml", "--set", "miner.k=5", "--lr", "0.01", "--out", "r", "--json"]
    )
    assert result.code == 0, result.err
    summary = result.json()
    assert (summary["status"], summary["steps"], summary["seed"]) == ("finished", 3, 0)
    assert set(summary["metrics"]) == set(summary["metrics_initial"])
    written = (place / "r" / "run.toml").read_text()
    assert tomllib.loads(written)["train"]["lr"] == 0.01
    lines = {line.split(" =")[0]: line for line in written.splitlines() if " = " in line}
    assert lines["lr"].endswith("# --lr")
    assert lines["k"].endswith("# default") or lines["k"].endswith("# --set")
    assert lines["batch_size"].endswith("# run.toml:11")
    assert "Next: ttf eval r" in result.err


def test_what_follows_a_run_works_as_its_last_lines_say(place: Path, invoke: Invoke) -> None:
    trained = invoke(["train", "run.toml", "--out", "r"])
    assert trained.code == 0, trained.err
    assert "recall@10" in trained.out
    assert "before training" in trained.out

    found = invoke(["eval", "r", "--k", "1,5", "--json"]).json()
    metrics = found.get("metrics", found)
    assert {"recall@1", "recall@5", "mrr@10", "ndcg@10"} <= set(metrics)

    lines = invoke(["search", "r", "--queries", "pairs.npz", "-k", "3"]).out.splitlines()
    assert lines[0] == "query\trank\tid\tscore"
    assert len(lines) == 1 + 3 * 16
    assert int(lines[1].split("\t")[2]) >= 1000, "the ids are the bank's own"

    told = invoke(["search", "r", "--queries", "pairs.npz", "-k", "3", "--out", "f.npz"])
    assert (told.code, told.out) == (0, "")
    with np.load(place / "f.npz") as written:
        assert written["ids"].shape == (16, 3)
        assert written["scores"].dtype == np.float32

    again = invoke(["train", "r/run.toml", "--out", "r2", "--json"]).json()
    first = invoke(["resume", "r", "--json"]).json()
    assert again["weights_sha256"] == first["weights_sha256"]


def test_a_plan_writes_nothing_and_says_how_to_go_on(place: Path, invoke: Invoke) -> None:
    before = sorted(p.name for p in place.iterdir())
    result = invoke(["train", "run.toml", "--seed", "3", "--set", "miner.k=5", "--plan"])
    assert result.code == 0, result.err
    assert result.out.strip()
    assert "Next: ttf train run.toml --seed 3 --set miner.k=5" in result.err
    assert invoke(["train", "run.toml", "--plan", "--json"]).json()
    assert sorted(p.name for p in place.iterdir()) == before


def test_a_gate_that_is_not_met_ends_with_seven(place: Path, invoke: Invoke) -> None:
    config = place / "run.toml"
    config.write_text(config.read_text() + "[[gates]]\nat = 'step 1'\nneed = 'recall@1 >= 1.0'\n")
    result = invoke(["train", "run.toml", "--out", "r"])
    assert result.code == 7
    assert "recall@1 >= 1.0" in result.err
    assert "Traceback" not in result.err
