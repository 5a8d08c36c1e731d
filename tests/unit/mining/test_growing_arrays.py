"""Arrays that grow in blocks: a process that dies at any moment loses its last block at most."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ttf.errors import EntryRefused, StorageError
from ttf.mining.growing_arrays import JOURNAL, GrowingArrays, Layout
from ttf.rundir.durable import Act, Operation, intercepted

ROWS, CUT = 10, 3
VECTORS = np.random.default_rng(5).standard_normal((ROWS, 4)).astype(np.float32)
ARRAYS = {"vectors.npy": Layout((ROWS, 4), "<f4"), "sums.npy": Layout((ROWS,), "<f8")}


class Killed(BaseException):
    """As a kill, of which no handler of ours hears."""


def opened(folder: Path, key: str = "key") -> GrowingArrays:
    return GrowingArrays.open(folder, folder.parent, ARRAYS, key, "round")


def grow(folder: Path, *, until: int = ROWS) -> GrowingArrays:
    arrays = opened(folder)
    while arrays.done < until:
        here = VECTORS[arrays.done : min(arrays.done + CUT, until)]
        arrays.append(here, here.sum(axis=1, dtype=np.float64), durable=True)
    return arrays


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, bytes]:
    grow(tmp_path / "whole")
    return content(tmp_path / "whole")


def killed_at(number: int) -> Callable[[Operation, Act], int]:
    met = 0

    def intercept(operation: Operation, act: Act) -> int:
        nonlocal met
        met += 1
        if met == number:
            data = memoryview(operation.data)
            if data:
                act(data[: len(data) // 2])
            raise Killed
        return act(memoryview(operation.data))

    return intercept


def test_killed_at_each_operation_it_ends_with_the_same_bytes(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    """Half of a write has reached the file."""
    for number in range(1, 100):
        folder = tmp_path / f"killed-{number}"
        try:
            with intercepted(killed_at(number)):
                grow(folder)
        except Killed:
            pass
        else:
            break
        assert grow(folder).done == ROWS
        assert content(folder) == whole
    assert number > 20  # each block has six operations


def test_a_life_of_one_block_each_gets_through(tmp_path: Path, whole: dict[str, bytes]) -> None:
    kept = [grow(tmp_path / "arrays", until=stop).done for stop in (3, 6, 9, 10)]
    assert kept == [3, 6, 9, 10]
    assert content(tmp_path / "arrays") == whole
    found = GrowingArrays.finished(tmp_path / "arrays", tmp_path, ARRAYS, "key", "round")
    assert found is not None and (found.rows("vectors.npy", 2, 7) == VECTORS[2:7]).all()
    assert (np.load(tmp_path / "arrays" / "vectors.npy") == VECTORS).all()


def test_a_block_that_does_not_read_back_is_made_again_with_those_after_it(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    folder = tmp_path / "arrays"
    grow(folder)
    data = bytearray(whole["sums.npy"])
    data[-8 * ROWS + 8 * 4] ^= 1  # of row 4, in the second block
    (folder / "sums.npy").write_bytes(data)
    assert opened(folder).done == CUT
    assert GrowingArrays.finished(folder, tmp_path, ARRAYS, "key", "round") is None
    grow(folder)
    assert content(folder) == whole


def test_a_torn_note_and_notes_of_an_earlier_content_do_not_count(tmp_path: Path) -> None:
    folder = tmp_path / "arrays"
    grow(folder)
    notes = (folder / JOURNAL).read_bytes()
    (folder / JOURNAL).write_bytes(notes[:-1])
    assert opened(folder).done == 9
    (folder / JOURNAL).write_bytes(notes[:40] + notes[60:])  # its first note is gone
    assert opened(folder).done == 0


@pytest.mark.parametrize("what", ["key", "rows", "type", "header", "file", "link"])
def test_it_begins_anew_where_something_else_was_kept(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "arrays"
    grow(folder, until=6)
    arrays, key = dict(ARRAYS), "key"
    path = folder / "sums.npy"
    if what == "key":
        key = "other"
    elif what == "rows":
        arrays = {n: Layout((11, *lay.shape[1:]), lay.dtype) for n, lay in ARRAYS.items()}
    elif what == "type":
        arrays["sums.npy"] = Layout((ROWS,), "<i8")
    elif what == "header":
        path.write_bytes(b"\x93NUMPX" + path.read_bytes()[6:])
    else:
        path.unlink()
    if what == "link":  # nothing outside is written
        (tmp_path / "outside").write_bytes(b"mine")
        path.symlink_to(tmp_path / "outside")
        with pytest.raises((EntryRefused, StorageError)):
            GrowingArrays.open(folder, tmp_path, arrays, key, "round")
        assert (tmp_path / "outside").read_bytes() == b"mine"
        return
    assert GrowingArrays.open(folder, tmp_path, arrays, key, "round").done == 0


def test_a_full_disk_is_a_storage_error_and_keeps_what_was_whole(tmp_path: Path) -> None:
    folder = tmp_path / "arrays"
    arrays = grow(folder, until=6)

    def full(operation: Operation, act: Act) -> int:
        raise OSError(28, "No space left on device")

    rows: NDArray[np.float32] = VECTORS[6:9]
    with intercepted(full), pytest.raises(StorageError):
        arrays.append(rows, rows.sum(axis=1))
    assert arrays.done == 6 and opened(folder).done == 6


def test_arrays_without_rows_are_complete(tmp_path: Path) -> None:
    nothing = {"vectors.npy": Layout((0, 4), "<f4")}
    GrowingArrays.open(tmp_path / "none", tmp_path, nothing, "key", "round")
    found = GrowingArrays.finished(tmp_path / "none", tmp_path, nothing, "key", "round")
    assert found is not None and np.load(tmp_path / "none" / "vectors.npy").shape == (0, 4)


def test_whether_there_is_a_block_can_be_asked_without_its_layout(tmp_path: Path) -> None:
    folder = tmp_path / "arrays"
    assert not GrowingArrays.has_blocks(folder)
    opened(folder)
    assert not GrowingArrays.has_blocks(folder)
    grow(folder, until=3)
    assert GrowingArrays.has_blocks(folder)
    GrowingArrays.forget(folder)
    assert opened(folder).done == 0
