"""Ids of documents: whole numbers or strings, each once; a pickle is no reason not to train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.kit.data_files import BANK, config, pairs

from ttf.data.convert import convert
from ttf.data.inspect import inspect
from ttf.data.open_dataset import open_dataset
from ttf.data.subset import Subset, subset
from ttf.errors import BadData
from ttf.host.plugins import open_store
from ttf_storage import _npz_reader

NAMES = np.array([f"doc {row}" for row in range(40)])


def opened(folder: Path, ids: NDArray[Any], save: Any = np.savez) -> tuple[Any, list[str]]:
    """The ids of the bank, and what is said."""
    data = config(folder, pairs()).model_copy(update={"bank": str(folder / "bank.npz")})
    save(folder / "bank.npz", vectors=BANK, ids=ids)
    with open_dataset(data) as found:
        return found.bank_ids, found.notes


@pytest.mark.parametrize(
    "ids",
    [NAMES, NAMES.astype("S"), NAMES.astype(">U9"), np.array([*NAMES[:-1], "é漢\U0001f600"])],
    ids=["text", "bytes", "big-endian", "other scripts"],
)
def test_strings_come_back_as_they_were_given(ids: NDArray[Any], tmp_path: Path) -> None:
    found, notes = opened(tmp_path, ids)
    assert found.tolist() == [i.decode() if isinstance(i, bytes) else i for i in ids.tolist()]
    assert notes == []


def test_ids_of_pandas_are_pickled_and_left_out_with_the_way_in(tmp_path: Path) -> None:
    found, [note] = opened(tmp_path, NAMES.astype(object))
    assert found is None
    assert "pickled Python objects" in note and "numpy.asarray(ids, dtype=str)" in note
    seen = inspect(str(tmp_path / "bank.npz"))
    assert seen.problems == [] and "ids holds pickled" in seen.notes[0]


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        (np.where(np.arange(40) == 5, "doc 3", NAMES), "doc 3 is the id of rows 3 and 5"),
        (NAMES[:7], r"shape \(7,\)"),
        (NAMES.reshape(8, 5), "strings"),
        (np.frombuffer(b"\xff\xff\xff\xff" * 40, "<U1"), "not valid text"),
        (np.frombuffer(b"\x00\xd8\x00\x00" * 40, "<U1"), "not valid text"),
        (np.array([b"\xff"] * 40), "not valid text"),
    ],
    ids=["twice", "too few", "two axes", "no character", "half a character", "no UTF-8"],
)
def test_strings_that_cannot_be_ids_are_refused(
    ids: NDArray[Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(BadData, match=says):
        opened(tmp_path, ids)


def test_compressed_strings_are_read_too(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "ids.npz", ids=NAMES)
    store = open_store(str(tmp_path / "ids.npz"))
    assert isinstance(store, _npz_reader.NpzStore)
    assert store.text("ids").tolist() == NAMES.tolist()


def test_strings_are_kept_by_convert_and_subset_or_said_to_be_left_out(tmp_path: Path) -> None:
    files = config(tmp_path, pairs())
    bank = str(tmp_path / "bank.npz")
    np.savez(bank, vectors=BANK.astype(np.float64), ids=NAMES)
    done = convert(bank, str(tmp_path / "copy.npz"), dtype="float16")
    assert {"name": "ids", "shape": [40], "dtype": "<U6"} in done.arrays and not done.left_out
    with np.load(tmp_path / "copy.npz") as copy:
        assert copy["ids"].tolist() == NAMES.tolist() and copy["vectors"].dtype == np.float16
    apart = convert(bank, str(tmp_path / "copy.zarr"))
    assert apart.left_out == ["ids"] and "cannot hold strings" in apart.notes[0]
    assert files.pairs is not None
    subset(files.pairs, str(tmp_path / "a.npz"), Subset(train=4, val=2), bank=bank,
           bank_out=str(tmp_path / "b.npz"))  # fmt: skip
    with np.load(tmp_path / "b.npz") as cut:
        assert cut["ids"].tolist() == NAMES[:4].tolist()
