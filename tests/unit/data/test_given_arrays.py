"""Arrays of a Python caller: ragged ones are padded, wrong ones are named as they were given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.data_files import BANK, X_TRAIN, pairs

import ttf
from ttf.data.array_arguments import as_files, named_as_given
from ttf.data.given_arrays import write_given
from ttf.errors import BadData, ConfigError

STEPS = np.random.default_rng(0).standard_normal((24, 4, 6)).astype(np.float32)
LENGTHS = np.arange(24) % 3 + 1
RAGGED = [x[:n] for x, n in zip(STEPS, LENGTHS, strict=True)]


def written(folder: Path, **arrays: Any) -> dict[str, Any]:
    (path,) = write_given({"pairs": arrays}, folder).values()
    with np.load(path) as held:
        return dict(held)


def as_objects(rows: list[Any]) -> Any:
    array = np.empty(len(rows), object)
    array[:] = rows
    return array


# --- ragged --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [list, tuple, as_objects])
def test_several_positives_are_filled_up_with_unknown_ones(form: Any, tmp_path: Path) -> None:
    held = written(tmp_path, pos_train=form([[1, 2], [3], np.array([4, 5, 6])]))
    assert held["pos_train"].tolist() == [[1, 2, -1], [3, -1, -1], [4, 5, 6]]
    assert held["pos_train"].dtype == np.int64


def test_a_tensor_that_keeps_its_sign_as_a_mark_is_read(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    marked = torch.complex(torch.zeros(X_TRAIN.shape), torch.from_numpy(X_TRAIN)).conj().imag
    assert marked.is_neg()
    np.testing.assert_array_equal(written(tmp_path, X_train=marked)["X_train"], -X_TRAIN)


def test_sequences_of_different_lengths_are_padded_alike_in_both_splits(tmp_path: Path) -> None:
    held = written(tmp_path, X_train=RAGGED[:16], X_val=STEPS[:5, :2])
    assert held["X_train"].shape == (16, 3, 6)
    assert held["len_train"].tolist() == LENGTHS[:16].tolist()
    assert held["X_val"].shape == (5, 3, 6)
    assert held["len_val"].tolist() == [2] * 5
    for row, steps in enumerate(RAGGED[:16]):
        np.testing.assert_array_equal(held["X_train"][row, : len(steps)], steps)
        assert not held["X_train"][row, len(steps) :].any()


def test_rows_of_a_context_are_padded_alike_in_both_splits(tmp_path: Path) -> None:
    held = written(tmp_path, seq_train=[[1, 2, 3], [4]], seq_val=np.array([[5, 6]]))
    assert held["seq_train"].tolist() == [[1, 2, 3], [4, -1, -1]]
    assert held["seq_val"].tolist() == [[5, 6, -1]]


def test_ragged_arrays_are_planned_like_padded_ones() -> None:
    known = np.arange(24) % 20
    padded = np.where((np.arange(4) < LENGTHS[:, None])[..., None], STEPS, 0)[:, :3]
    ragged = ttf.plan(
        pairs={"X_train": RAGGED, "pos_train": [[k, k + 1] for k in known]}, bank=BANK
    )
    whole = {"X_train": padded, "len_train": LENGTHS, "pos_train": np.stack([known, known + 1], 1)}
    assert ragged.to_json() == ttf.plan(pairs=whole, bank=BANK).to_json()


BAD = [
    ({"X_train": RAGGED, "len_train": LENGTHS}, "The array X_train holds sequences", "len_train out"),
    ({"X_train": [RAGGED[0], STEPS[1, :2, :4]]}, "one dim", ""),
    ({"X_train": [STEPS[0], STEPS[1, :0]]}, "One of them is empty", ""),
    ({"pos_train": [[1.5, 2.0], [3]]}, "The array pos_train: row 0 has the type float64", ""),
    ({"Y_train": [[1.0, 2.0], [3.0]]}, "The array Y_train cannot be read as one array", "same shape"),
    ({"X_train": as_objects([X_TRAIN[0], X_TRAIN[1, :2]])}, "row 1 has the shape", "same length"),
    ({"X_train": (9 * X_TRAIN).astype(np.int8)}, "The array X_train has the type int8",
     'array.astype("float32")'),
    ({"X_train": X_TRAIN.astype(np.float64) * 1e200}, "The array X_train: row 0", "Scale the vectors."),
]  # fmt: skip


@pytest.mark.parametrize(("arrays", "says", "hint"), BAD)
def test_what_cannot_be_an_array_is_refused_by_its_name(
    arrays: dict[str, Any], says: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(BadData) as caught:
        written(tmp_path, **arrays)
    assert says in str(caught.value)
    assert hint in caught.value.hint
    assert "--dtype" not in caught.value.hint


# --- the names in errors -------------------------------------------------------------------------


def changed(row: int) -> Any:
    array = X_TRAIN.copy()
    array[row, 2] = np.nan
    return array


@pytest.mark.parametrize(
    ("arrays", "says", "hint"),
    [
        (pairs(X_train=changed(7)), "The array X_train, row 7, is not finite", "numpy.isfinite"),
        (pairs(X_train=None), "pairs= has neither X_train nor seq_train", "X_train"),
        (pairs(pos_train=np.arange(16.0)), "The array pos_train has the type float64. It must",
         "astype(\"int64\")"),
        (pairs(pos_train=np.where(np.arange(16) < 3, np.nan, 1.0)), "3 of its values are missing (NaN)",
         "-1"),
        ({"X_trian": X_TRAIN, "pos_train": np.arange(16)}, "neither X_train nor seq_train",
         'If X_trian is meant: sets={"data.names.X_train": "X_trian"}'),
        ({"user_train": np.arange(16), "pos_train": np.arange(16)}, "neither X_train nor seq_train",
         "If an array has another name"),
        (pairs(pos_train=np.arange(40, 56)), "The array pos_train, row 0, is 40", "-1"),
    ],
    ids=["not finite", "missing", "floats", "missing values", "typo", "users", "beyond the bank"],
)  # fmt: skip
def test_an_error_names_the_array_and_no_file_that_is_gone(
    arrays: dict[str, Any], says: str, hint: str
) -> None:
    with pytest.raises(BadData) as caught:
        ttf.plan(pairs=arrays, bank=BANK)
    text = f"{caught.value} {caught.value.hint}"
    assert says in str(caught.value)
    assert hint in caught.value.hint
    assert ".npz" not in text and "ttf-" not in text


def test_a_document_is_named_by_its_argument(tmp_path: Path) -> None:
    path = str(tmp_path / "bank.npz")
    said = r"^The array vectors of bank=, row 3, is not finite"
    with pytest.raises(BadData, match=said), named_as_given({"bank": path}):
        raise BadData(f"vectors[3] in {path} is not finite.")


def test_files_of_arrays_end_with_their_use_and_paths_stay_as_they_are() -> None:
    with as_files({"pairs": "a.npz", "bank": BANK, "context": None}) as files:
        assert (files["pairs"], files["context"]) == (Path("a.npz"), None)
        bank = files["bank"]
        assert isinstance(bank, Path)
        with np.load(bank) as held:
            np.testing.assert_array_equal(held["vectors"], BANK)
    assert not bank.parent.exists()


def test_what_outlives_the_call_takes_no_arrays() -> None:
    for call in (
        lambda: ttf.tune(pairs={"X_train": X_TRAIN}, bank="bank.npz"),
        lambda: ttf.mine(queries="q.npz", bank=BANK, out="c.npz"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError, match="as a path") as caught:
            call()
        assert "numpy.savez" in caught.value.hint
