"""Records that lie alone, beside each other, and in runs longer than what is read in one go."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ttf.data.embedding.positions import Reader, runs
from ttf.data.embedding.records import UNIT
from ttf.errors import ArtifactDamaged


@pytest.mark.parametrize("units_of_a_record", [1, 9, 12_288])
@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
def test_every_record_arrives_in_its_row(
    tmp_path: Path, units_of_a_record: int, share: float
) -> None:
    draw = np.random.default_rng(0)
    count = max(20, 40_000 // units_of_a_record)
    records = draw.random((count, units_of_a_record * UNIT // 4), np.float32)
    (tmp_path / "rows.bin").write_bytes(records.tobytes())
    wanted = np.flatnonzero(draw.random(count) <= share)
    rows = draw.permutation(len(wanted))
    out = np.zeros((len(wanted), records.shape[1]), np.float32)
    fd = os.open(tmp_path / "rows.bin", os.O_RDONLY)
    try:
        for _ in range(2):  # the second time in a buffer that was used
            Reader().read(fd, "rows.bin", wanted * units_of_a_record, out, rows)
    finally:
        os.close(fd)
    assert np.array_equal(out[rows], records[wanted])


def test_a_record_behind_the_end_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.bin").write_bytes(bytes(10 * UNIT))
    fd, out = os.open(tmp_path / "rows.bin", os.O_RDONLY), np.zeros((2, UNIT // 4), np.float32)
    try:
        with pytest.raises(ArtifactDamaged, match=r"640 bytes long; a record at byte 64,000"):
            Reader().read(fd, "rows.bin", np.array([9, 1000]), out, np.arange(2))
    finally:
        os.close(fd)


def test_a_long_run_is_cut() -> None:
    cuts = runs(np.arange(0, 100_000, 9), 9)
    assert cuts[0] == 0
    assert set(np.diff(cuts * 9)) <= {8190, 8199}  # half a megabyte, in whole records
