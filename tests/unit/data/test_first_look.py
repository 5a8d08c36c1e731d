"""What a bounded sample of the data tells before the first step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.kit.data_files import config, pairs

from ttf.data import first_look
from ttf.data.first_look import look, share_ranked_right
from ttf.data.open_dataset import open_dataset
from ttf.errors import BadData

COUNT, DIM = 200, 8
RNG = np.random.default_rng(2)
BANK = RNG.standard_normal((COUNT, DIM)).astype(np.float32)
ROWS = np.arange(COUNT)
TRAIN, VAL = ROWS[:150], ROWS[150:]
QUERIES = BANK + 0.5 * RNG.standard_normal((COUNT, DIM)).astype(np.float32)
GOOD: dict[str, Any] = {
    "X_train": QUERIES[TRAIN],
    "X_val": QUERIES[VAL],
    "pos_train": TRAIN,
    "pos_val": VAL,
}


def seen(folder: Path, bank: NDArray[np.float32] = BANK, **changes: Any) -> list[str]:
    """The messages about this data set."""
    with open_dataset(config(folder, pairs(**(GOOD | changes)), {"vectors": bank})) as data:
        return list(look(data))


def changed(array: NDArray[np.float32], rows: Any, value: float) -> NDArray[np.float32]:
    copy = array.copy()
    copy[rows] = value
    return copy


def test_good_data_needs_no_word(tmp_path: Path) -> None:
    assert seen(tmp_path) == []


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["X_train", "X_val"])
def test_a_query_that_is_not_finite_is_refused_with_its_row(
    name: str, value: float, tmp_path: Path
) -> None:
    with pytest.raises(BadData, match=rf"{name}\[37\] in .*pairs.npz is not finite"):
        seen(tmp_path, **{name: changed(GOOD[name], (37, 3), value)})


def test_a_document_that_is_not_finite_is_refused_with_its_row(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"vectors\[11\] in .*bank.npz is not finite"):
        seen(tmp_path, changed(BANK, (11, 0), np.nan))


def test_a_row_that_no_pair_uses_may_hold_anything(tmp_path: Path) -> None:
    positives = np.where(TRAIN == 37, -1, TRAIN)
    assert seen(tmp_path, X_train=changed(GOOD["X_train"], 37, np.nan), pos_train=positives) == []


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (0.0, "are zero"),
        (1e30, "have norms so large"),
        (1e-30, "are zero, or their norm is so small"),
    ],
    ids=["zero", "too long", "too short"],
)
def test_vectors_without_a_direction_are_refused_or_counted(
    value: float, what: str, tmp_path: Path
) -> None:
    all_rows = np.full_like(GOOD["X_train"], value)
    with pytest.raises(BadData, match=rf"X_train in .*: all 150 checked rows {what}"):
        seen(tmp_path, X_train=all_rows)
    [note] = seen(tmp_path, changed(BANK, [4, 9], value))
    assert "vectors in" in note and f"2 of 200 checked rows {what}" in note


def test_one_vector_over_and_over_is_said(tmp_path: Path) -> None:
    notes = seen(tmp_path, X_train=np.ones_like(GOOD["X_train"]))
    assert "X_train" in notes[0] and "all 150 checked rows are the same" in notes[0]


def test_validation_queries_that_are_trained_on_are_said(tmp_path: Path) -> None:
    same = {"X_val": GOOD["X_train"], "pos_val": TRAIN}
    [note] = seen(tmp_path, **same)
    assert "150 of 150 checked validation queries are also training queries" in note
    some = np.concatenate([QUERIES[VAL][:30], QUERIES[TRAIN][[7, 80, 3, 3, 140, 9, 1, 2]]])
    [note] = seen(tmp_path, X_val=some, pos_val=np.concatenate([VAL[:30], np.zeros(8, np.int64)]))
    assert "8 of 38" in note


def test_where_too_much_would_be_read_the_same_rows_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_look, "_HASHED_BYTES", 1)
    assert seen(tmp_path) == []
    [note] = seen(tmp_path, X_val=GOOD["X_train"], pos_val=TRAIN)
    assert "150 of 150" in note


def test_sequences_that_are_repeated_are_compared_by_their_rows(tmp_path: Path) -> None:
    seq = RNG.integers(COUNT, size=(150, 3))
    numbers: dict[str, Any] = {
        "X_train": None,
        "X_val": None,
        "seq_train": seq,
        "seq_val": seq[:50],
    }
    notes = seen(tmp_path, **numbers)
    assert any("50 of 50 checked validation queries" in note for note in notes)


def test_pairs_that_were_shuffled_are_said(tmp_path: Path) -> None:
    [note] = seen(tmp_path, pos_train=RNG.permutation(TRAIN))
    assert "a query is no nearer to its positive than to the positive of another query" in note
    assert "chance is 50%" in note


def test_other_widths_and_few_pairs_say_nothing_about_the_order(tmp_path: Path) -> None:
    wide = {"X_train": np.tile(GOOD["X_train"], 2), "X_val": np.tile(GOOD["X_val"], 2)}
    shuffled = RNG.permutation(TRAIN)
    assert seen(tmp_path, **wide, pos_train=shuffled) == []
    few = {"X_train": GOOD["X_train"][:20], "pos_train": shuffled[:20]}
    assert seen(tmp_path, **few) == []


def test_the_last_step_of_a_sequence_is_looked_at_as_well_as_the_mean(tmp_path: Path) -> None:
    noise = 3 * RNG.standard_normal((COUNT, 4, DIM)).astype(np.float32)
    noise[:, 2] = QUERIES
    lengths = np.full(COUNT, 3)
    arrays = {"X_train": noise[TRAIN], "X_val": noise[VAL], "len_train": lengths[TRAIN]}
    whole = pairs(**(GOOD | arrays), len_val=lengths[VAL])
    with open_dataset(config(tmp_path, whole, {"vectors": BANK})) as data:
        found = share_ranked_right(data.train, data.bank)
    assert found is not None and found[0] > 0.95


def test_a_large_array_is_sampled_in_blocks_from_end_to_end() -> None:
    rows = first_look._sampled(1_000_000, 768)
    assert len(rows) == 1024
    assert (rows[0], rows[-1]) == (0, 999_999)
    assert (np.diff(rows) == 1).mean() > 0.9
    assert len(first_look._sampled(100_000, 100 * 768)) * 100 * 768 * 4 <= 16 << 20


def test_pairs_and_bank_in_each_others_place_are_told(tmp_path: Path) -> None:
    good = config(tmp_path, pairs(**GOOD), {"vectors": BANK})
    swapped = good.model_copy(update={"pairs": good.bank, "bank": good.pairs})
    with pytest.raises(BadData, match="pairs and bank look swapped") as refused:
        open_dataset(swapped)
    assert refused.value.hint == f"--pairs {good.pairs} --bank {good.bank}"


def test_sequences_that_look_padded_are_named_if_nothing_gives_their_lengths(
    tmp_path: Path,
) -> None:
    sequences = np.repeat(QUERIES[:, None], 3, axis=1)
    sequences[:20, 2] = 0
    sequences[4] = 0  # a row of zeros is said by another note
    known: dict[str, Any] = {"X_train": sequences[TRAIN], "X_val": sequences[VAL]}
    (note,) = [text for text in seen(tmp_path, **known) if "padding" in text]
    assert "X_train in" in note and "19 of 150 checked sequences end in zero vectors" in note
    assert "len_train (int64)" in note
    lengths = {"len_train": np.full(len(TRAIN), 2), "len_val": np.full(len(VAL), 3)}
    assert not any("padding" in text for text in seen(tmp_path, **known, **lengths))


def test_zeros_at_the_front_of_sequences_are_named_too(tmp_path: Path) -> None:
    sequences = np.repeat(QUERIES[:, None], 3, axis=1)
    sequences[:20, 0] = 0
    (note,) = [
        t for t in seen(tmp_path, X_train=sequences[TRAIN], X_val=sequences[VAL]) if "pad" in t
    ]
    assert "20 of 150 checked sequences begin with zero vectors" in note
    assert "move it to the end" in note


@pytest.mark.parametrize("front", [False, True])
def test_a_number_that_only_fills_sequences_up_is_named(front: bool, tmp_path: Path) -> None:
    seq = RNG.integers(1, COUNT, size=(150, 4))
    full: dict[str, Any] = {"X_train": None, "X_val": None, "seq_val": seq[:50], "seq_train": seq}
    full["pos_train"] = np.maximum(TRAIN, 1)
    assert not any("padding" in note for note in seen(tmp_path, **full))
    seq[:30, 3], seq[:15, 2] = 0, 0
    zeros = seq[:, ::-1] if front else seq
    changed_now = full | {"seq_train": zeros, "seq_val": seq[100:]}
    (note,) = [text for text in seen(tmp_path, **changed_now) if "padding" in text]
    verb = "begin with" if front else "end in"
    assert f"30 of 150 checked sequences {verb} the number 0, which is in no other place" in note
    assert "write -1 there" in note
    for change in (
        {"seq_train": np.where(zeros == 0, -1, zeros)},  # said as it must be
        {"pos_train": TRAIN},  # 0 is a document
        {"seq_train": np.concatenate([zeros[:149], zeros[:1, [1, 3, 0, 2]]])},  # 0 within one
    ):
        assert not any("padding" in text for text in seen(tmp_path, **changed_now | change))


def test_one_row_without_a_direction_is_said_in_the_singular(tmp_path: Path) -> None:
    (note,) = seen(tmp_path, changed(BANK, 5, 0.0))
    assert "1 of 200 checked rows is zero (the first: norm 0). It has no direction" in note
    (note,) = seen(tmp_path, X_train=changed(GOOD["X_train"], 5, 0.0))
    assert note.endswith("It has no direction, so all documents are equally near to it.")


def test_own_negatives_that_are_positives_of_their_pair_are_counted(tmp_path: Path) -> None:
    own = np.stack([(TRAIN + 1) % COUNT, np.full(150, -1)], axis=1)
    assert seen(tmp_path, neg_train=own) == []
    own[:3, 1] = TRAIN[:3]
    (note,) = seen(tmp_path, neg_train=own)
    assert "3 of 153 checked own negatives are positives of the same pair" in note


def test_padding_with_nan_is_told_with_the_array_that_says_so(tmp_path: Path) -> None:
    sequences = np.repeat(QUERIES[:, None], 3, axis=1)
    sequences[:20, 2] = np.nan
    with pytest.raises(BadData) as error:
        seen(tmp_path, X_train=sequences[TRAIN], X_val=sequences[VAL])
    assert "If this is padding, give the lengths: len_train" in error.value.hint
    sequences[1, 0] = np.nan
    sequences[1, 2] = 0
    with pytest.raises(BadData) as error:
        seen(tmp_path, X_train=sequences[TRAIN], X_val=sequences[VAL])
    assert "len_train" not in error.value.hint
