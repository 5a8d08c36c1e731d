"""What is particular to this storage; what holds for every storage is in test_conformance.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from ttf import BadData

from ttf_storage_your_name._layout import TABLE
from ttf_storage_your_name.plugin import YourNameStorage

ROWS: NDArray[np.float32] = np.arange(60, dtype=np.float32).reshape(20, 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With two arrays."""
    path = tmp_path / "bank.your-name"
    writer = YourNameStorage().create(str(path))
    writer.array("vectors", (20, 3), "float32").append(ROWS)
    writer.array("../ids", (20,), "int64").append(np.arange(20))
    writer.commit()
    return path


def test_numpy_reads_the_arrays_without_us(folder: Path) -> None:
    assert sorted(p.name for p in folder.iterdir()) == ["0.npy", "1.npy", TABLE]
    np.testing.assert_array_equal(np.load(folder / "0.npy"), ROWS)


@pytest.mark.parametrize("table", [b"", b"{}x", b"[1]", b'[{"name": "x"}]', b"\xff", b"[" * 9999])
def test_a_damaged_table_is_bad_data(folder: Path, table: bytes) -> None:
    (folder / TABLE).write_bytes(table)
    with pytest.raises(BadData, match=r"arrays\.json is damaged"):
        YourNameStorage().open(str(folder))


def test_a_changed_byte_is_found_by_reading_everything(folder: Path) -> None:
    with (folder / "0.npy").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    store = YourNameStorage().open(str(folder))
    assert [problem.partition(" is damaged")[0] for problem in store.verify()] == [
        f"{folder}: the array 'vectors'"
    ]
    store.close()
