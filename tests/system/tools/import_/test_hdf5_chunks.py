"""Packed chunks of HDF5 are unpacked only if they hold what they declare."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from ttf.errors import BadData
from ttf.tools.import_.hdf5 import open_hdf5

ROWS = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)


def _deflated(path: Path, shape: tuple[int, int], size: int) -> Path:
    """One chunk that unpacks to `size` bytes of zeros."""
    h5py = pytest.importorskip("h5py")
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()
    with h5py.File(path, "w") as file:
        made = file.create_dataset("v", shape, "f4", chunks=shape, compression="gzip")
        made.id.write_direct_chunk((0, 0), packed)
    return path


def test_a_chunk_that_unpacks_to_more_than_it_declares_is_refused(tmp_path: Path) -> None:
    found = open_hdf5(_deflated(tmp_path / "a.h5", (1000, 100), 200 << 20))
    with pytest.raises(BadData, match=r"declares 400 kB, but unpacks to more"):
        found.columns["v"].read(0, 1)
    found.close()


def test_a_chunk_that_is_too_large_to_unpack_is_refused(tmp_path: Path) -> None:
    found = open_hdf5(_deflated(tmp_path / "a.h5", (1 << 14, 1 << 14), 1 << 20))
    with pytest.raises(BadData, match=r"packed chunks of 1\.1 GB"):
        found.columns["v"].read(0, 1)
    found.close()


def test_filters_that_take_their_sizes_from_the_file_are_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.arange(2000).reshape(200, 10), scaleoffset=0)
        file.create_dataset("w", data=ROWS, chunks=(70, 3), compression="lzf", shuffle=True)
        file.create_dataset("x", data=ROWS, chunks=(70, 3), compression="gzip", fletcher32=True)
    found = open_hdf5(tmp_path / "a.h5")
    with pytest.raises(BadData, match="packed by the filters 6 of HDF5"):
        found.columns["v"].read(0, 1)
    for name in ("w", "x"):
        assert np.array_equal(found.columns[name].read(50, 250), ROWS[50:250])
    found.close()


def test_groups_in_groups_have_a_limit(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group("/".join("g" * 100)).create_dataset("v", data=ROWS)
    with pytest.raises(BadData, match="groups in one another"):
        open_hdf5(tmp_path / "a.h5")
