"""Positives: rows of the bank as named in the file, or found by value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.kit.data_files import BANK, config, pairs

from ttf.config.schema import DataConfig
from ttf.data.dataset import Dataset
from ttf.data.open_dataset import open_dataset
from ttf.errors import BadData


def int64(*values: object) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def opened(folder: Path, bank: NDArray[np.float32] | None = BANK, **changes: object) -> Dataset:
    arrays = pairs(**changes)  # type: ignore[arg-type]
    return open_dataset(config(folder, arrays, None if bank is None else {"vectors": bank}))


def test_one_positive_a_pair(tmp_path: Path) -> None:
    wanted = np.arange(16)[::-1].astype(np.int64)
    with opened(tmp_path, pos_train=wanted) as data:
        assert data.train.positives.tolist() == wanted[:, None].tolist()
        assert len(data.train) == 16
        assert data.train.left_out == 0
        assert data.distinct_documents == 16


def test_several_positives_a_pair_padded_with_minus_one(tmp_path: Path) -> None:
    wanted = np.full((16, 3), -1, np.int32)
    wanted[:, 1] = 5
    wanted[3] = (7, 8, 9)
    with opened(tmp_path, pos_train=wanted) as data:
        assert data.train.known(int64(3, 0)).tolist() == [[7, 8, 9], [-1, 5, -1]]
        assert data.distinct_documents == 4


def test_a_positive_named_twice_for_a_pair_counts_once(tmp_path: Path) -> None:
    wanted = np.tile(int64(4, 2, 4), (16, 1))
    with opened(tmp_path, pos_train=wanted) as data:
        assert data.train.known(int64(0)).tolist() == [[4, 2, -1]]


def test_pairs_without_a_positive_are_left_out_and_counted(tmp_path: Path) -> None:
    wanted = np.arange(16, dtype=np.int64)
    wanted[[2, 5]] = -1
    with opened(tmp_path, pos_train=wanted) as data:
        assert data.train.keep.tolist() == [i for i in range(16) if i not in (2, 5)]
        assert data.train.left_out == 2
        assert data.train.known(int64(2)).tolist() == [[3]]
        assert "2 of 16 train pairs" in " ".join(data.notes)


@pytest.mark.parametrize("value", [40, -2, 2**40])
def test_a_value_that_is_no_row_is_named_with_its_row_and_file(tmp_path: Path, value: int) -> None:
    wanted = np.arange(16, dtype=np.int64)
    wanted[11] = value
    with pytest.raises(BadData) as caught:
        opened(tmp_path, pos_train=wanted)
    for part in ("pos_train[11] in ", f"pairs.npz is {value}", "40 rows"):
        assert part in str(caught.value)


def test_with_several_positives_the_column_is_named_too(tmp_path: Path) -> None:
    wanted = np.zeros((8, 2), np.int64)
    wanted[6, 1] = 99
    with pytest.raises(BadData, match=r"pos_val\[6, 1\] in .* is 99"):
        opened(tmp_path, pos_val=wanted)


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(16, np.float32),
        np.zeros((16, 1, 1), np.int64),
        np.zeros(0, np.int64),
        np.zeros((16, 0), np.int64),
    ],
    ids=["floats", "three axes", "empty", "no column"],
)
def test_positives_of_another_kind_are_refused(tmp_path: Path, wrong: NDArray[Any]) -> None:
    with pytest.raises(BadData, match="pos_train"):
        opened(tmp_path, pos_train=wrong)


def test_positives_of_another_count_are_refused_also_where_y_would_complete_them(
    tmp_path: Path,
) -> None:
    with pytest.raises(BadData, match="pos_train.*3 rows.*16 train queries"):
        opened(tmp_path, pos_train=int64(0, -1, 2), Y_train=BANK[:16])


def by_value(folder: Path, targets: NDArray[np.floating], bank: NDArray[np.float32]) -> Dataset:
    return opened(folder, bank, pos_train=None, Y_train=targets)


def test_targets_are_found_in_the_bank_by_value(tmp_path: Path) -> None:
    wanted = np.random.default_rng(1).permutation(40)[:16]
    with by_value(tmp_path, BANK[wanted], BANK) as data:
        assert data.train.positives[:, 0].tolist() == wanted.tolist()


def test_float16_targets_are_found_in_a_float32_bank(tmp_path: Path) -> None:
    bank = BANK.astype(np.float16).astype(np.float32)
    with by_value(tmp_path, bank[4:20].astype(np.float16), bank) as data:
        assert data.train.positives[:, 0].tolist() == list(range(4, 20))


def test_minus_zero_is_zero(tmp_path: Path) -> None:
    bank = BANK.copy()
    bank[7] = 0.0
    targets = np.tile(np.float32(-0.0), (16, 6))
    with by_value(tmp_path, targets, bank) as data:
        assert (data.train.positives == 7).all()


def test_the_first_of_equal_bank_rows_wins(tmp_path: Path) -> None:
    bank = np.concatenate([BANK[:10], BANK[:10], BANK])
    with by_value(tmp_path, BANK[:16], bank) as data:
        assert data.train.positives[:, 0].tolist() == [*range(10), *range(30, 36)]


def test_targets_that_match_nothing_are_counted_and_left_out(tmp_path: Path) -> None:
    targets = BANK[:16].copy()
    targets[[1, 9]] += np.float32(1e-3)
    targets[3, 0] = np.nan
    with by_value(tmp_path, targets, BANK) as data:
        assert data.train.left_out == 3
        assert sorted(set(range(16)) - set(data.train.keep.tolist())) == [1, 3, 9]


def test_a_row_that_differs_in_one_value_or_in_order_is_another_row(tmp_path: Path) -> None:
    bank = np.concatenate([BANK, BANK[:16, ::-1]]).astype(np.float32)
    targets = BANK[:16].copy()
    targets[:, 5] = np.nextafter(targets[:, 5], np.float32(9))
    bank = np.concatenate([bank, targets])
    with by_value(tmp_path, targets, bank) as data:
        assert data.train.positives[:, 0].tolist() == list(range(56, 72))


def test_matching_holds_across_blocks(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    bank = rng.standard_normal((20_000, 16)).astype(np.float32)
    wanted = rng.integers(0, 20_000, 9000)
    arrays = pairs(X_train=bank[:9000], X_val=bank[:8], pos_train=None, Y_train=bank[wanted])
    with open_dataset(config(tmp_path, arrays, {"vectors": bank})) as data:
        assert (data.train.positives[:, 0] == wanted).all()


def test_what_pos_does_not_know_y_completes(tmp_path: Path) -> None:
    known = np.full((16, 2), -1, np.int64)
    known[0] = (30, 31)
    with opened(tmp_path, pos_train=known, Y_train=BANK[:16]) as data:
        assert data.train.positives[0].tolist() == [30, 31], "what was named stays"
        assert data.train.positives[1:, 0].tolist() == list(range(1, 16))
        assert data.train.left_out == 0


def test_without_a_bank_the_distinct_rows_of_y_are_it(tmp_path: Path) -> None:
    targets = BANK[[3, 1, 3, 2] * 4]
    with opened(
        tmp_path, None, pos_train=None, pos_val=None, Y_train=targets, Y_val=BANK[[9, 1] * 4]
    ) as data:
        assert data.bank.shape == (4, 6)
        seen = data.bank.gather(np.arange(4, dtype=np.int64))
        assert (seen == BANK[[3, 1, 2, 9]]).all(), "in the order they first come up"
        assert data.train.positives[:4, 0].tolist() == [0, 1, 0, 2]
        assert data.val.positives[:2, 0].tolist() == [3, 1]
        assert "distinct rows of Y" in data.notes[0]
        assert data.document_name(3) == f"Y_val[0] in {tmp_path / 'pairs.npz'}"
        assert data.document_name(2) == f"Y_train[3] in {tmp_path / 'pairs.npz'}"


def test_that_bank_can_be_opened_by_another_process(tmp_path: Path) -> None:
    from ttf.data.sources import open_ref

    with opened(
        tmp_path, None, pos_train=None, pos_val=None, Y_train=BANK[[3] * 16], Y_val=BANK[[5] * 8]
    ) as data:
        reference = data.bank_ref(tmp_path, unit=False)
        with open_ref(reference) as again:
            assert (again.source.read(0, 2) == BANK[[3, 5]]).all()


def test_positions_without_a_bank_are_said_to_be_unused(tmp_path: Path) -> None:
    with opened(tmp_path, None, Y_train=BANK[:16], Y_val=BANK[:8]) as data:
        assert "pos_train is not used" in " ".join(data.notes)


def test_targets_beside_positions_of_all_pairs_are_said_to_be_unused(tmp_path: Path) -> None:
    odd = pairs(Y_train=np.zeros((3, 2), np.int64))
    with open_dataset(config(tmp_path, odd, {"vectors": BANK})) as data:
        [note] = data.notes
    assert "Y_train is not used and not checked" in note


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (np.arange(16, dtype=np.float64), ("the type float64", 'astype("int64")')),
        (np.array([f"d{n}" for n in range(16)]), ("<U3", "row numbers", 'enumerate(bank["ids"])')),
        (np.array([{}] * 16, dtype=object), ("object", 'enumerate(bank["ids"])')),
        (np.arange(25, 41), ("is 40", "rows from 0", "row numbers start at 1", "pos_train - 1")),
        (np.r_[-1, np.arange(26, 41)], ("is 40", "row numbers start at 1")),
        (np.r_[0, np.arange(26, 41)], ("is 40", "use the bank for which")),
        (np.r_[5, np.arange(27, 42)], ("is 40", "use the bank for which")),
    ],
    ids=["floats", "strings", "objects", "from one", "no one", "a zero", "beyond"],
)
def test_rows_that_are_none_are_refused_with_what_to_do(
    rows: NDArray[Any], says: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "pairs.npz"
    rows[:1] = 1 if says[-1].endswith("- 1") else rows[:1]
    others = {"pos_train": rows, "pos_val": np.arange(8) + 1}
    np.savez(file, allow_pickle=True, **(pairs() | others))
    bank = tmp_path / "bank.npz"
    np.savez(bank, vectors=BANK)
    with pytest.raises(BadData) as caught:
        open_dataset(DataConfig(pairs=str(file), bank=str(bank)))
    for part in says:
        assert part in f"{caught.value} {caught.value.hint}"
