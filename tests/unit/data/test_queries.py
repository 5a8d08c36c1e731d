"""Query inputs: vectors as stored, or rows of a context gathered on demand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from tests.kit.data_files import BANK, RNG, config, pairs, write

from ttf.config.schema import DataConfig
from ttf.contracts import DType
from ttf.data.dataset import Dataset, Queries
from ttf.data.open_dataset import open_dataset
from ttf.errors import BadData

LENGTH = 5
CONTEXT = RNG.standard_normal((30, 4)).astype(np.float32)
SEQ_VAL = np.arange(8 * LENGTH, dtype=np.int32).reshape(8, LENGTH) % 30


class Held:
    """A source in memory that remembers which rows were asked for."""

    uri = "memory"

    def __init__(self, rows: NDArray[Any], name: str = "held") -> None:
        self.rows, self.name, self.shape = rows, name, rows.shape
        self.dtype: DType = rows.dtype.name  # type: ignore[assignment]
        self.asked: list[int] = []

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        self.asked += ids.tolist()
        return self.rows[ids]

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        return self.rows[start:stop]

    def fingerprint(self) -> str:
        return "held"


def sequences(
    folder: Path, seq: NDArray[Any], context: NDArray[Any] | None = CONTEXT, **more: Any
) -> Dataset:
    bank = BANK if context is not None else CONTEXT
    arrays = pairs(X_train=None, X_val=None, seq_train=seq, seq_val=SEQ_VAL, **more)
    held = None if context is None else {"vectors": context}
    return open_dataset(config(folder, arrays, {"vectors": bank}, held))


def expanded(
    seq: NDArray[Any], context: NDArray[np.float32], lengths: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """What a row means, step by step: valid steps first, zeros behind them."""
    x = np.zeros((*seq.shape, context.shape[1]), np.float32)
    counts = np.zeros(len(seq), np.int64)
    for row, steps in enumerate(seq):
        kept = steps if lengths is None else steps[: lengths[row]]
        for step in kept[kept >= 0]:
            x[row, counts[row]] = context[step]
            counts[row] += 1
    return x, counts


def random_sequences(seed: int, rows: int, length: int, padding: str) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    seq = rng.integers(0, 30, (rows, length))
    for row in seq:
        count = int(rng.integers(0, length))
        where = {
            "left": np.arange(count),
            "right": np.arange(length - count, length),
            "middle": rng.permutation(length)[:count],
        }[padding]
        row[where] = -1
    return seq


@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 9),
    length=st.integers(1, 7),
    padding=st.sampled_from(["left", "right", "middle"]),
    dtype=st.sampled_from([np.int32, np.int64]),
)
@settings(max_examples=150, deadline=None)
def test_a_batch_is_the_naive_expansion(
    seed: int, rows: int, length: int, padding: str, dtype: type[np.integer[Any]]
) -> None:
    seq = random_sequences(seed, rows, length, padding).astype(dtype)
    picked = np.random.default_rng(seed).integers(0, rows, 6)
    batch = Queries(Held(seq), Held(CONTEXT), None).batch(picked)
    x, counts = expanded(seq, CONTEXT)
    assert (batch.x == x[picked]).all()
    found = np.full(6, length) if batch.lengths is None else batch.lengths
    assert (found == counts[picked]).all()


@given(seed=st.integers(0, 10**6), length=st.integers(1, 7))
@settings(max_examples=100, deadline=None)
def test_lengths_and_padding_together_cut_what_either_leaves_out(seed: int, length: int) -> None:
    seq = random_sequences(seed, 5, length, "right")
    lengths = np.random.default_rng(seed).integers(1, length + 1, 5)
    batch = Queries(Held(seq), Held(CONTEXT), lengths).batch(np.arange(5))
    x, counts = expanded(seq, CONTEXT, lengths)
    assert (batch.x == x).all()
    assert ((np.full(5, length) if batch.lengths is None else batch.lengths) == counts).all()


def test_only_the_rows_of_the_batch_are_read() -> None:
    seq, context = Held(np.tile(np.arange(10)[:, None], (1, 3))), Held(CONTEXT)
    Queries(seq, context, None).batch(np.array([7, 2]))
    assert seq.asked == [7, 2]
    assert sorted(set(context.asked)) == [2, 7]


def test_rows_refer_to_the_context_file(tmp_path: Path) -> None:
    seq = np.arange(16 * LENGTH, dtype=np.int32).reshape(16, LENGTH) % 30
    with sequences(tmp_path, seq) as data:
        assert (data.train.queries.dim, data.train.queries.length) == (4, LENGTH)
        assert data.train.queries.sequence
        assert (data.train.batch(np.array([3])).x == CONTEXT[seq[3]][None]).all()


def test_without_a_context_they_refer_to_the_bank(tmp_path: Path) -> None:
    seq = np.full((16, LENGTH), 2, np.int64)
    with sequences(tmp_path, seq, None) as data:
        assert (data.train.batch(np.array([0])).x == CONTEXT[[2] * LENGTH][None]).all()


def test_a_float16_context_is_widened(tmp_path: Path) -> None:
    seq = np.full((16, LENGTH), 2, np.int64)
    with sequences(tmp_path, seq, CONTEXT.astype(np.float16)) as data:
        found = data.train.batch(np.array([0])).x
        assert found.dtype == np.float32
        assert (found == CONTEXT.astype(np.float16).astype(np.float32)[[2] * LENGTH]).all()


@pytest.mark.parametrize("value", [30, -2, 2**30])
def test_a_step_outside_the_context_is_named(tmp_path: Path, value: int) -> None:
    seq = np.zeros((16, LENGTH), np.int64)
    seq[9, 2] = value
    with pytest.raises(BadData) as caught:
        sequences(tmp_path, seq)
    for part in ("seq_train[9]", "pairs.npz", f"row {value}", "context.npz", "0 to 29"):
        assert part in str(caught.value)


def test_a_row_of_padding_is_named(tmp_path: Path) -> None:
    seq = np.zeros((16, LENGTH), np.int64)
    seq[4] = -1
    with pytest.raises(BadData, match=r"seq_train\[4\] in .*pairs.npz is an empty sequence"):
        sequences(tmp_path, seq)


def test_pairs_that_are_left_out_may_hold_anything(tmp_path: Path) -> None:
    seq = np.zeros((16, LENGTH), np.int64)
    seq[4], seq[5] = -1, 10**9
    positives = np.arange(16, dtype=np.int64)
    positives[[4, 5]] = -1
    with sequences(tmp_path, seq, pos_train=positives) as data:
        assert len(data.train) == 14


def test_what_lies_beyond_a_length_may_be_anything(tmp_path: Path) -> None:
    seq = np.zeros((16, LENGTH), np.int64)
    seq[:, 3:] = 10**9
    with sequences(tmp_path, seq, len_train=np.full(16, 3)) as data:
        assert data.train.batch(np.array([0])).lengths == [3]


def test_stored_sequences_keep_their_lengths_and_lose_what_is_behind_them(tmp_path: Path) -> None:
    x = RNG.standard_normal((16, LENGTH, 6)).astype(np.float32)
    x[2, 3:] = np.nan
    lengths = np.full(16, LENGTH, np.int64)
    lengths[2] = 3
    arrays = pairs(X_train=x, X_val=x[:8] * 0, len_train=lengths)
    with open_dataset(config(tmp_path, arrays, {"vectors": BANK})) as data:
        batch = data.train.batch(np.array([2, 5]))
        assert batch.lengths is not None
        assert batch.lengths.tolist() == [3, LENGTH]
        assert (batch.x[0, :3] == x[2, :3]).all()
        assert (batch.x[0, 3:] == 0).all()
        assert (batch.x[1] == x[5]).all()
        assert data.train.batch(np.array([5, 6])).lengths is None, "equal lengths are not passed"


def test_the_file_itself_is_never_changed_by_a_batch(tmp_path: Path) -> None:
    x = RNG.standard_normal((16, LENGTH, 6)).astype(np.float32)
    arrays = pairs(X_train=x, X_val=x[:8], len_train=np.full(16, 2))
    with open_dataset(config(tmp_path, arrays, {"vectors": BANK})) as data:
        data.train.batch(np.arange(16))
        assert (data.train.queries.source.read(0, 16) == x).all()


def test_plain_vectors_are_no_sequences(tmp_path: Path) -> None:
    with open_dataset(config(tmp_path, pairs(), {"vectors": BANK})) as data:
        queries = data.train.queries
        assert (queries.sequence, queries.length, queries.dim) == (False, 1, 6)
        assert data.train.batch(np.array([1, 0])).x.shape == (2, 6)


PREFIX = np.arange(LENGTH) < np.array([3, 1, *[LENGTH] * 14])[:, None]


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int64])
def test_a_mask_of_valid_steps_is_the_lengths(kind: type[np.generic], tmp_path: Path) -> None:
    x = np.ones((16, LENGTH, 6), np.float32)
    file = tmp_path / "pairs.npz"
    arrays = pairs(X_train=x, X_val=x[:8])
    np.savez(file, **arrays, mask_train=PREFIX.astype(kind))  # type: ignore[arg-type]
    with open_dataset(DataConfig(pairs=str(file), bank=bank_file(tmp_path))) as data:
        assert data.train.queries.lengths is not None
        assert data.train.queries.lengths.tolist() == [3, 1, *[LENGTH] * 14]
        assert (data.train.batch(np.array([0])).x[0, 3:] == 0).all()
        assert not [note for note in data.notes if "not used" in note]


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        (PREFIX[:, ::-1], (r"mask_train[0]", "padding is at the end", "names.mask_train=none")),
        (~PREFIX, ("mask_train[0]", "~mask")),
        (PREFIX & (np.arange(16) != 9)[:, None], ("mask_train[9]", "at least one valid step")),
        (PREFIX * 2, ("mask_train[0]", "True")),
        (PREFIX[:, :2], ("mask_train", "(16, 2)", "(16, 5)")),
        (PREFIX.astype(np.float32), ("mask_train", "float32", "boolean")),
    ],
    ids=["padding in front", "of the padding", "an empty row", "of twos", "shape", "floats"],
)
def test_a_mask_that_is_no_length_is_refused(
    mask: NDArray[Any], says: tuple[str, ...], tmp_path: Path
) -> None:
    x = np.ones((16, LENGTH, 6), np.float32)
    file = tmp_path / "pairs.npz"
    np.savez(file, **pairs(X_train=x, X_val=x[:8]), mask_train=mask)  # type: ignore[arg-type]
    given = DataConfig(pairs=str(file), bank=bank_file(tmp_path))
    with pytest.raises(BadData) as caught:
        open_dataset(given)
    for part in says:
        assert part in f"{caught.value} {caught.value.hint}"
    ignored = given.model_copy(update={"names": {"mask_train": "none"}})
    with open_dataset(ignored) as data:
        assert data.train.queries.lengths is None
        assert not [note for note in data.notes if "not used" in note]


def bank_file(folder: Path) -> str:
    return write(folder / "bank.npz", {"vectors": BANK})
