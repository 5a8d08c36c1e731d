"""What is kept of an array is not used for another content."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from tests.kit.data_files import overwrite_and_set_back

from ttf.data.kept_for import content_key, times_of
from ttf.data.sources import MemorySource, StackedRows, WithColumn
from ttf.data.vectors import RowView, UnitRows
from ttf.host.plugins import open_store
from ttf.mining.scan.bf16_bank import open_half

ROWS = np.random.default_rng(0).standard_normal((60_000, 16)).astype(np.float32)
NOT_SAMPLED = ROWS.nbytes // 2 + 9_000


def key_of(path: Path) -> str:
    with contextlib.closing(open_store(str(path))) as store:
        plain = store.source("vectors")
        views = RowView(plain, np.arange(5)), StackedRows([plain, plain]), UnitRows(plain)
        keys = [content_key(source) for source in (plain, *views, WithColumn(plain, ROWS[:, 0]))]
        assert len(set(keys)) == len(keys)
        return repr(keys)


@pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])
def test_rows_that_changed_between_the_samples_give_another_key(
    tmp_path: Path, folder: bool
) -> None:
    place = tmp_path / "bank" if folder else tmp_path / "vectors.npy"
    path = place / "vectors.npy" if folder else place
    path.parent.mkdir(exist_ok=True)
    np.save(path, ROWS)
    before = key_of(place)
    assert key_of(place) == before
    overwrite_and_set_back(path, NOT_SAMPLED)
    assert key_of(place) != before


def test_with_checksums_only_the_content_counts(tmp_path: Path) -> None:
    path = tmp_path / "bank.npz"
    np.savez(path, vectors=ROWS)
    before = key_of(path)
    path.chmod(0o600)
    path.rename(tmp_path / "other.npz")
    assert key_of(tmp_path / "other.npz") == before


def test_what_is_not_on_this_machine_has_no_times() -> None:
    assert times_of("s3://bucket/bank.zarr") == ""
    assert content_key(MemorySource(ROWS)) == content_key(MemorySource(ROWS))


def test_a_copy_of_a_bank_is_not_used_for_the_changed_bank(tmp_path: Path) -> None:
    path, cache = tmp_path / "vectors.npy", tmp_path / "cache"
    np.save(path, ROWS)
    firsts = []
    for _ in range(2):
        with contextlib.closing(open_store(str(path))) as store:
            half = open_half(store.source("vectors"), cache, print)
            firsts.append(half.norms.copy())
            half.close()
        overwrite_and_set_back(path, NOT_SAMPLED)
    assert (firsts[0] != firsts[1]).sum() in (1, 2)
