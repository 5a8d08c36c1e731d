"""What is said about a configuration before the first step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.data_files import config
from tests.kit.small_training import BANK, PAIRS, arrays

from ttf.config.resolve import resolve
from ttf.data.first_look import look
from ttf.data.open_dataset import open_dataset
from ttf.machine.devices import choose
from ttf.training.auto_settings import decide
from ttf.training.remarks import remarks


def said(folder: Path, data: dict[str, Any] | None = None, **flags: Any) -> str:
    resolved = resolve(flags={"miner.negatives": 0, **flags})
    with open_dataset(config(folder, data or arrays(), {"vectors": BANK})) as opened:
        decided = decide(resolved, opened, choose("cpu", {}, 1))
        opened.notes += look(opened)
        return "\n".join(remarks(decided, opened))


@pytest.mark.parametrize(
    ("batch", "left"), [(48, "1 step of 48 samples. It leaves out 32"), (32, "16 of the 80")]
)
def test_pairs_that_an_epoch_leaves_out_are_said(batch: int, left: str, tmp_path: Path) -> None:
    text = said(tmp_path, batch_size=batch, tower="linear")
    assert left in text and f"of the {PAIRS} training pairs, different ones in each epoch" in text


@pytest.mark.parametrize("batch", [80, 40, 26, 7])
def test_a_few_pairs_that_are_left_out_are_not_worth_a_word(batch: int, tmp_path: Path) -> None:
    assert "leaves out" not in said(tmp_path, batch_size=batch, tower="linear")


def test_the_default_tower_on_single_vectors_is_said_and_a_chosen_one_is_not(
    tmp_path: Path,
) -> None:
    assert "Query tower linear: the queries are single vectors" in said(tmp_path)
    options: dict[str, Any] = {"tower.query.hidden": 8}
    assert "tower.query has options and no name" in said(tmp_path, **options)
    assert "single vectors" not in said(tmp_path, tower="gru")
    sequences = np.repeat(arrays()["X_train"][:, None], 2, axis=1)
    three = arrays() | {"X_train": sequences, "X_val": sequences[:20]}
    assert "single vectors" not in said(tmp_path, three)


def test_notes_about_the_data_and_signs_of_a_mistake_come_first(tmp_path: Path) -> None:
    shuffled = arrays() | {"pos_train": np.roll(np.arange(PAIRS) % 60, 7)}
    del shuffled["X_val"], shuffled["pos_val"]
    lines = said(tmp_path, shuffled).splitlines()
    assert "has no validation pairs" in lines[0]
    assert "a query is no nearer to its positive" in lines[1]


def test_good_data_with_a_tower_that_fits_needs_no_word(tmp_path: Path) -> None:
    apart = arrays() | {"X_val": arrays()["X_train"][60:], "X_train": arrays()["X_train"][:60]}
    apart |= {"pos_val": apart["pos_train"][60:], "pos_train": apart["pos_train"][:60]}
    shown = {"evaluate.k": [1, 10]}
    assert said(tmp_path, apart, tower="linear", batch_size=60, **shown) == ""


def test_metrics_that_mean_little_are_said(tmp_path: Path) -> None:
    few = arrays()["X_val"][:2]
    data = arrays() | {"X_val": few, "pos_val": arrays()["pos_val"][:2]}
    rows = len(BANK)
    text = said(tmp_path, data, **{"evaluate.k": [1, 10, rows - 1, rows, 500]})
    assert f"only {rows} documents, so recall@{rows}, recall@500 can only be 1." in text
    assert "evaluate.metric=" not in text
    assert "only 2 validation pairs: each is 50% of every metric" in text
    by = {"evaluate.k": [1, rows], "evaluate.metric": f"recall@{rows}"}
    assert "--set evaluate.metric=mrr@10" in said(tmp_path, data, **by)
