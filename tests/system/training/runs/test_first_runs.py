"""The first run of somebody who brings files as NumPy, pandas and scikit-learn give them: it ends
with a model and an honest figure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit import beginner_sets

if TYPE_CHECKING:
    from tests.conftest import Invoke, Outcome

# In this process, with one thread: a second or less for a run.
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
    done = train(invoke, beginner_sets.tfidf(tmp_path))
    assert done.code == 0, done.err
    [note] = summary()["notes"]
    assert re.match(r"At step 7: Only \d\.\d% of 448 queries have a mined negative left", note)
    assert f"note: {note}" in done.err
    assert note in done.out
    assert note.partition(" (")[0] in (tmp_path / "run" / "report.html").read_text()
    assert Path("run/model/model.safetensors").is_file()


def test_a_floor_of_mined_negatives_that_the_user_set_refuses(
    tmp_path: Path, invoke: Invoke
) -> None:
    done = train(invoke, beginner_sets.tfidf(tmp_path), "--set", "negatives.min_yield=0.05")
    assert done.code == 2
    assert "negatives.min_yield asks for 5.0%" in done.err
