"""Validation pairs that are drawn from the training pairs of a file that has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.kit.data_files import BANK, X_TRAIN, config, pairs

from ttf.data.dataset import Dataset, Queries, Split
from ttf.data.open_dataset import Opening, open_dataset
from ttf.data.sources import MemorySource
from ttf.data.val_split import draw_val
from ttf.errors import ArrayMissing, BadData

NO_VAL: dict[str, Any] = {"X_val": None, "pos_val": None}


def split(documents: list[int] | np.ndarray[Any, Any]) -> Split:
    """A pair for each document, all usable."""
    positives = np.asarray(documents, dtype=np.int64).reshape(len(documents), -1)
    queries = Queries(MemorySource(np.zeros((len(positives), 2), np.float32)), None, None)
    keep = np.arange(len(positives))
    return Split(name="train", queries=queries, positives=positives, keep=keep, left_out=0)


@pytest.mark.parametrize(
    ("pairs_there", "drawn"),
    [(2, 1), (10, 2), (100, 20), (1000, 200), (3000, 200), (8000, 400), (200_000, 5000)],
)
def test_by_default_they_are_a_twentieth_within_bounds(pairs_there: int, drawn: int) -> None:
    train, val, facts = draw_val(split(np.arange(pairs_there)), "auto", 0)
    assert (len(val), len(train)) == (drawn, pairs_there - drawn)
    assert facts.text.startswith(f"{drawn:,} of {pairs_there:,}")


@given(
    documents=st.lists(st.integers(0, 12), min_size=2, max_size=60),
    share=st.one_of(st.just("auto"), st.floats(0.01, 0.99)),
    seed=st.integers(0, 5),
)
@settings(max_examples=200, deadline=None)
def test_every_pair_is_in_one_part_and_the_recorded_share_draws_the_same_again(
    documents: list[int], share: Any, seed: int
) -> None:
    whole = split(documents)
    train, val, facts = draw_val(whole, share, seed)
    assert sorted([*train.keep, *val.keep]) == list(range(len(documents)))
    assert len(train) and len(val)
    if "stay together" in facts.text:
        assert set(whole.positives[val.keep, 0]).isdisjoint(whole.positives[train.keep, 0])
    again = draw_val(whole, facts.share, seed)
    assert np.array_equal(again[1].keep, val.keep)
    assert again[2].text == facts.text


def test_documents_with_most_of_the_pairs_stay_in_training() -> None:
    popular = [0] * 500 + list(range(1, 501))
    train, val, _ = draw_val(split(popular), 0.1, 3)
    assert len(val) == 100
    assert 0 not in val.positives[val.keep]
    assert 0 in train.positives[train.keep]


def test_where_every_document_has_too_many_pairs_they_are_drawn_one_by_one() -> None:
    _, val, facts = draw_val(split([0] * 500 + [1] * 500), "auto", 0)
    assert len(val) == 200
    assert "may be separated" in facts.text


def test_of_several_positives_the_first_known_one_decides() -> None:
    several = np.array([[-1, 4], [4, 7], [5, -1], [6, -1], [-1, 6], [8, -1]])
    _, val, _ = draw_val(split(several), 0.4, 1)
    groups = [{0, 1}, {3, 4}]
    assert all(group <= set(val.keep) or group.isdisjoint(val.keep) for group in groups)


def test_pairs_of_items_are_drawn_one_by_one_so_that_their_items_are_trained() -> None:
    sessions = np.arange(1000) % 100
    train, val, facts = draw_val(split(sessions), "auto", 0, of_items=True)
    assert len(val) == 200 and "drawn by pair" in facts.text
    assert set(val.positives[:, 0]) == set(train.positives[train.keep, 0])


def test_one_pair_cannot_be_divided() -> None:
    with pytest.raises(BadData, match="1 usable training pair"):
        draw_val(split([3]), "auto", 0)


# --- in a data set ---------------------------------------------------------------------------


def opened(folder: Path, seed: int = 0, **more: Any) -> Dataset:
    folder.mkdir(exist_ok=True)
    data = config(folder, pairs(**NO_VAL), {"vectors": BANK}).model_copy(update=more)
    with open_dataset(data, seed=seed) as found:
        return found


def test_a_file_without_validation_gets_some_and_says_so(tmp_path: Path) -> None:
    data = opened(tmp_path)
    assert (len(data.train), len(data.val)) == (13, 3)
    [note] = data.notes
    assert "has no validation pairs" in note and "--val-split F" in note
    assert "3 of 16 (18.8%), pairs of one document stay together" in note
    assert np.array_equal(data.val.batch(np.arange(3)).x, X_TRAIN[data.val.keep])


def test_the_seed_decides_and_belongs_to_the_fingerprint(tmp_path: Path) -> None:
    first, again, other = (opened(tmp_path / str(seed), seed) for seed in (0, 0, 1))
    assert np.array_equal(first.val.keep, again.val.keep)
    assert not np.array_equal(first.val.keep, other.val.keep)
    assert first.fingerprint != other.fingerprint


def test_validation_pairs_of_the_file_are_used_and_a_share_is_not(tmp_path: Path) -> None:
    with open_dataset(config(tmp_path, pairs(), {"vectors": BANK})) as plain:
        assert (len(plain.train), len(plain.val), plain.val_drawn) == (16, 8, None)
    asked = config(tmp_path, pairs(), {"vectors": BANK}).model_copy(update={"val_split": 0.5})
    with open_dataset(asked) as found:
        assert (len(found.train), len(found.val), found.fingerprint) == (16, 8, plain.fingerprint)
        assert "data.val_split = 0.5 is not used" in found.notes[0]


def test_none_are_drawn_where_some_array_of_validation_is_there_or_none_are_wanted(
    tmp_path: Path,
) -> None:
    with pytest.raises(ArrayMissing, match="neither X_val nor seq_val") as refused:
        opened(tmp_path, val_split=0)
    assert "--val-split 0.05" in refused.value.hint
    with pytest.raises(ArrayMissing, match="neither X_val nor seq_val") as refused:
        open_dataset(config(tmp_path, pairs(X_val=None), {"vectors": BANK}))
    assert "Without any *_val array" in refused.value.hint


def test_sessions_of_items_keep_their_own_negatives_and_lose_no_item(tmp_path: Path) -> None:
    rows = np.arange(60, dtype=np.int64)[:, None]
    arrays = {"seq_train": rows % 4, "pos_train": rows[:, 0] % 4, "neg_train": (rows + 1) % 4}
    items = config(tmp_path, arrays).model_copy(update={"items": 4})
    with open_dataset(items) as data:
        assert "drawn by pair" in data.notes[0]
        assert set(data.train.positives[data.train.keep, 0]) == {0, 1, 2, 3}
        assert data.train.negatives is not None and data.train.num_own == 1
    with open_dataset(items.model_copy(update={"hold_out": 0.5})) as tuned:
        assert set(tuned.train.positives[tuned.train.keep, 0]) == {0, 1, 2, 3}


def test_without_a_bank_the_rows_of_y_train_are_the_bank(tmp_path: Path) -> None:
    targets = BANK[np.arange(16) % 5]
    arrays = pairs(**NO_VAL, pos_train=None, Y_train=targets)
    with open_dataset(config(tmp_path, arrays)) as data:
        assert data.bank.shape == (5, 6)
        assert (len(data.train), len(data.val)) == (13, 3)
        ref = data.bank_ref(tmp_path, unit=False)
        assert ref.array == "Y_train"


def test_a_hold_out_is_drawn_from_what_the_run_trains_on_and_no_validation_pair_is_read(
    tmp_path: Path,
) -> None:
    unreadable = pairs(X_val=np.full((3, 2, 2, 9), np.nan, np.float32))
    held = config(tmp_path, unreadable, {"vectors": BANK}).model_copy(update={"hold_out": 0.25})
    with open_dataset(held, seed=1) as found:
        parts = np.concatenate([found.train.keep, found.val.keep])
        assert sorted(parts) == list(range(16))
        assert len(found.val) == 4
        assert found.val.queries is found.train.queries
        assert found.val_drawn is None
        assert any("data.hold_out" in note for note in found.notes)


def test_a_hold_out_has_none_of_the_validation_pairs_that_were_drawn(tmp_path: Path) -> None:
    without = config(tmp_path, pairs(**NO_VAL), {"vectors": BANK})
    without = without.model_copy(update={"val_split": 0.25})
    with open_dataset(without, seed=1) as plain:
        val, train = set(plain.val.keep), set(plain.train.keep)
        drawn = plain.val_drawn
    with open_dataset(without.model_copy(update={"hold_out": 0.25}), seed=1) as found:
        assert set(found.val.keep) < train
        assert not val & set(found.train.keep)
        assert found.val_drawn == drawn


def test_a_hold_out_is_of_the_runs_own_file_only(tmp_path: Path) -> None:
    held = config(tmp_path, pairs(), {"vectors": BANK}).model_copy(update={"hold_out": 0.25})
    with Opening(held, own_pairs=str(tmp_path / "other.npz")) as opening:
        assert len(opening.judged()) == 8
