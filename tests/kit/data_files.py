"""Small data sets on disk, written by the house's own writer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ttf.config.schema import DataConfig
from ttf.contracts import DType
from ttf.host.plugins import create_store

RNG = np.random.default_rng(0)
BANK = RNG.standard_normal((40, 6)).astype(np.float32)
X_TRAIN = RNG.standard_normal((16, 6)).astype(np.float32)
X_VAL = RNG.standard_normal((8, 6)).astype(np.float32)


def write(path: Path, arrays: Mapping[str, NDArray[Any]]) -> str:
    """A container with these arrays; the path as a uri."""
    writer = create_store(str(path))
    for name, array in arrays.items():
        writer.array(name, array.shape, cast("DType", array.dtype.name)).append(array)
    writer.commit()
    return str(path)


def pairs(**changes: NDArray[Any] | None) -> dict[str, NDArray[Any]]:
    """The good pairs with some arrays replaced, added, or (None) left out."""
    good: dict[str, NDArray[Any] | None] = {
        "X_train": X_TRAIN,
        "X_val": X_VAL,
        "pos_train": np.arange(16, dtype=np.int64),
        "pos_val": np.arange(8, dtype=np.int64),
    }
    return {name: array for name, array in (good | changes).items() if array is not None}


def config(
    folder: Path,
    arrays: Mapping[str, NDArray[Any]],
    bank: Mapping[str, NDArray[Any]] | None = None,
    context: Mapping[str, NDArray[Any]] | None = None,
    names: Mapping[str, str] | None = None,
) -> DataConfig:
    """Writes what is given to `folder` and names it as `[data]` would."""
    return DataConfig(
        pairs=write(folder / "pairs.npz", arrays),
        bank=None if bank is None else write(folder / "bank.npz", bank),
        context=None if context is None else write(folder / "context.npz", context),
        names=dict(names or {}),
    )


def overwrite_and_set_back(path: Path, place: int) -> None:
    """Other bytes at `place`, with the size and the time of before, as `rsync --inplace -t` does."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"other content")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of file systems is coarse
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
