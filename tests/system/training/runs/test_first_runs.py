"""The first run of somebody who brings files as NumPy, pandas and scikit-learn give them: it ends
with a model and an honest figure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.kit import beginner_sets

if TYPE_CHECKING:
    from tests.conftest import Invoke, Outcome

# In this process, with one thread: a second or less for a run.
MINED = ("--set", "miner.negatives=4")
HERE = ("--in-process", "--isolation", "none", "--threads", "1", "--out", "run")
QUICK = ("--tower", "mlp", "--epochs", "2", "--batch-size", "64")


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def train(invoke: Invoke, words: Sequence[str], *more: str) -> Outcome:
    return invoke(["train", *words, *QUICK, *HERE, *more])


def summary() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("run/summary.json").read_text())
    return found


def test_texts_by_tfidf_train_although_the_filter_trusts_hardly_any_negative(
    tmp_path: Path, invoke: Invoke
) -> None:
    done = train(invoke, beginner_sets.tfidf(tmp_path), *MINED)
    assert done.code == 0, done.err
    [note] = summary()["notes"]
    assert re.match(
        r"At step 8: Only \d\.\d% of 512 queries have a document among the 200 nearest whose score is",
        note,
    )
    assert f"note: {note}" in done.err
    assert note in done.out
    assert note.partition(" (")[0] in (tmp_path / "run" / "report.html").read_text()
    assert Path("run/model/model.safetensors").is_file()


def test_a_floor_of_mined_negatives_that_the_user_set_refuses(
    tmp_path: Path, invoke: Invoke
) -> None:
    done = train(invoke, beginner_sets.tfidf(tmp_path), *MINED, "--set", "negatives.min_yield=0.05")
    assert done.code == 2
    assert "negatives.min_yield requires that 5.0%" in done.err


def test_pairs_without_validation_train_and_every_later_command_uses_the_same_split(
    tmp_path: Path, invoke: Invoke
) -> None:
    words = beginner_sets.without_validation(tmp_path)
    planned = invoke(["train", *words, *QUICK, "--seed", "4", "--plan"])
    assert "note: pairs.npz has no validation pairs" in planned.out.replace(f"{tmp_path}/", "")
    done = train(invoke, words, "--seed", "4")
    assert done.code == 0, done.err
    [drawn] = [note for note in summary()["notes"] if "no validation pairs" in note]
    assert "seed 4" in drawn and drawn in done.err
    assert "val_split = 0.2" in Path("run/run.toml").read_text()
    evaluated = invoke(["eval", "run", "--json"]).json()
    assert evaluated["metrics"] == summary()["metrics"]
    assert drawn in evaluated["notes"]
    again = invoke(["train", "run/run.toml", "--in-process", "--out", "again", "--json"])
    assert again.json()["weights_sha256"] == summary()["weights_sha256"]
    other = train(invoke, words, "--out", "other", "--val-split", "0.5", "--json").json()
    assert other["samples"] < summary()["samples"]


def test_sequences_without_their_context_are_no_success_and_the_proposed_command_is(
    tmp_path: Path, invoke: Invoke
) -> None:
    words = beginner_sets.sequences(tmp_path)
    quick = ("--tower", "linear", "--epochs", "2", "--batch-size", "64")
    failed = invoke(["train", *words, *quick, *HERE])
    assert failed.code == 7, failed.err
    assert "contain row numbers, and no --context was given" in failed.err
    assert "ranks the 660 documents no better than chance: recall@10 is 0.0" in failed.err
    assert summary()["status"] == "finished" and summary()["exit_code"] == 7
    assert invoke(["resume", "run", "--in-process"]).code == 7
    assert invoke(["eval", "run"]).code == 0
    accepted = (*HERE[:-1], "accepted", "--set", "evaluate.above_chance=false")
    assert invoke(["train", *words, *quick, *accepted]).code == 0

    said = invoke(["data", "inspect", "windows.npz"]).err
    proposed = said.rpartition("Next: ttf ")[2].split()
    assert proposed[-3:] == ["--context", "context.npz", "--plan"]
    Path("run").rename("failed")
    done = invoke([*proposed[:-1], "--tower", "linear", "--epochs", "2", *HERE])
    assert done.code == 0, done.err
    assert summary()["metrics"]["recall@10"] > 0.5


def test_frames_of_pandas_train_as_they_are_saved(tmp_path: Path, invoke: Invoke) -> None:
    words = beginner_sets.frames(tmp_path)
    seen = invoke(["data", "inspect", "pairs.npz"])
    assert seen.code == 0 and "problem:" not in seen.out
    assert "X_train is float64: its rows are converted to float32 as they are read" in seen.err
    proposed = seen.err.rpartition("Next: ttf ")[2].split()
    assert proposed == ["train", *words[:2], "--plan"]
    done = train(invoke, words)
    assert done.code == 0, done.err
    again = invoke(["data", "convert", "pairs.npz", "plain.npz"])
    assert again.code == 0, again.err
    plain = train(invoke, ["--pairs", "plain.npz", *words[2:]], "--out", "plain").code
    assert plain == 0
    metrics = json.loads(Path("plain/summary.json").read_text())["metrics"]
    assert summary()["metrics"] == pytest.approx(metrics, abs=0.05)
    assert summary()["metrics"]["recall@10"] > 0.5


def test_ids_that_are_strings_are_shown_and_tables_hold_rows(
    tmp_path: Path, invoke: Invoke
) -> None:
    words = beginner_sets.string_ids(tmp_path)
    assert invoke(["data", "inspect", "bank.npz"]).code == 0
    done = train(invoke, words)
    assert done.code == 0, done.err
    ask = ["search", "run", "--queries", "pairs.npz", "-k", "2"]
    lines = invoke(ask).out.splitlines()
    assert re.fullmatch(r"0\t1\ttext-\d{4}\t0\.\d+", lines[1])
    found = invoke([*ask, "--json"]).json()
    assert found["ids_are"] == "the ids of the bank"
    assert found["ids"][0] == [f"text-{row:04}" for row in found["rows"][0]]
    told = invoke([*ask, "--out", "found.npz"])
    assert "row numbers of the bank, not its ids" in told.err
    with np.load("found.npz") as table:
        assert table["ids"].tolist() == found["rows"]


@pytest.mark.parametrize("given", [False, True], ids=["a new folder", "a folder that was there"])
def test_a_refusal_before_the_first_step_leaves_no_run_behind(
    given: bool, tmp_path: Path, invoke: Invoke
) -> None:
    words = beginner_sets.tfidf(tmp_path)
    if given:
        Path("run").mkdir()
        Path("run/mine.txt").write_text("kept")
    refused = train(invoke, words, "--set", "negatives.min_yield=0.9", *MINED)
    assert refused.code == 2, refused.err
    left = [] if not Path("run").exists() else [path.name for path in Path("run").iterdir()]
    assert left == (["mine.txt"] if given else [])
