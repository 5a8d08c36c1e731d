"""bfloat16 copies of banks in the cache: `<cache>/half/<key>/`, made once, verified before use."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.contracts import Progress, VectorSource
from ttf.data.vectors import seen_as_writable
from ttf.errors import ArtifactDamaged, StorageError
from ttf.mining.scan.float32_rows import read_float32
from ttf.mining.scan.rounding import rounded
from ttf.rundir.durable import OpenFile, folder_written_whole, write_new
from ttf.rundir.verified_folder import folder_key, lock_folder, verified_manifest, write_manifest
from ttf.text.numbers import size

Say = Callable[[str], None]

FORMAT: Final = 1
_AREA: Final = "half"
_BITS, _NORMS, _RESIDUALS = "half.npy", "norms.npy", "residuals.npy"
_BLOCK_ROWS: Final = 8192
ROOM: Final = 3
"""The disk must have this many times the copy's size free: a cache never fills it."""


class Files:
    """The open files of a copy: bits mapped read-only, bounds in memory."""

    def __init__(self, folder: Path, shape: tuple[int, int]) -> None:
        self.norms: NDArray[np.float32] = np.load(folder / _NORMS, allow_pickle=False)
        self.residuals: NDArray[np.float32] = np.load(folder / _RESIDUALS, allow_pickle=False)
        mapped = np.load(folder / _BITS, mmap_mode="r", allow_pickle=False)
        if (mapped.shape, mapped.dtype) != (shape, np.uint16):
            raise ArtifactDamaged(f"{folder / _BITS} is {mapped.dtype} {mapped.shape}.")
        self.bits = np.array(mapped) if not mapped.size else seen_as_writable(mapped)

    def close(self) -> None:
        """The map goes with the last tensor that looks into it."""
        self.bits = np.empty((0, 0), np.uint16)


def key_of(source: VectorSource) -> str:
    return folder_key({"bank": source.fingerprint(), "shape": list(source.shape), "format": FORMAT})


def size_of(source: VectorSource) -> int:
    rows, dim = source.shape
    return rows * (2 * dim + 8) + 4096


def ready(source: VectorSource, cache: Path, say: Say, progress: Progress | None) -> Files | None:
    """The copy of this bank, made where there is none; None where it cannot be kept, and said.

    Two runs never make the same copy at once; the second waits and uses it.
    """
    folder = cache / "half" / key_of(source)
    try:
        lock = lock_folder(folder)
    except OSError as error:
        say(f"The cache {folder.parent} cannot be used ({error}); the bank is rounded on the fly.")
        return None
    with lock:
        return _kept(folder, source, say) or _made(folder, source, say, progress)


def _kept(folder: Path, source: VectorSource, say: Say) -> Files | None:
    if not folder.exists():
        return None
    try:
        verified_manifest(folder, "The copy", names=(_BITS, _NORMS, _RESIDUALS))
        return Files(folder, (source.shape[0], source.shape[1]))
    except (ArtifactDamaged, OSError, ValueError) as error:
        say(f"{error} The bank's bfloat16 copy is made anew.")
        return None


def _made(folder: Path, source: VectorSource, say: Say, progress: Progress | None) -> Files | None:
    needed = size_of(source)
    free = shutil.disk_usage(folder.parent).free
    if free < ROOM * needed:
        say(
            f"The bank's bfloat16 copy ({size(needed)}) is not kept: {folder.parent} has "
            f"{size(free)} free, and {ROOM} times its size should be. It is made on the fly."
        )
        return None
    try:
        with folder_written_whole(folder, _AREA) as temp:
            hashes = _write(temp, source, progress)
            write_manifest(temp, {"format": FORMAT}, hashes, _AREA)
    except StorageError as error:
        say(f"{error} The bank's bfloat16 copy is not kept. {error.hint}".rstrip())
        return None
    say(f"The bank's bfloat16 copy ({size(needed)}) is kept in {folder}.")
    return Files(folder, (source.shape[0], source.shape[1]))


def _write(folder: Path, source: VectorSource, progress: Progress | None) -> dict[str, str]:
    rows, dim = source.shape
    norms, residuals = np.empty(rows, np.float32), np.empty(rows, np.float32)
    file = OpenFile(folder / _BITS, _AREA)
    try:
        file.write(_header((rows, dim), "<u2"))
        for start, stop in _spans(rows):
            block = rounded(torch.from_numpy(read_float32(source, start, stop)))
            file.write(block.half.view(torch.uint16).numpy().data)
            norms[start:stop], residuals[start:stop] = block.norms, block.residuals
            if progress is not None:
                progress(stop, rows)
    finally:
        file.close()
    bounds = {_NORMS: norms, _RESIDUALS: residuals}
    return {_BITS: file.sha256} | {
        name: write_new(folder / name, _header(values.shape, "<f4") + values.tobytes(), _AREA)
        for name, values in bounds.items()
    }


def _spans(rows: int) -> Iterator[tuple[int, int]]:
    for start in range(0, rows, _BLOCK_ROWS):
        yield start, min(start + _BLOCK_ROWS, rows)


def _header(shape: tuple[int, ...], descr: str) -> bytes:
    file = io.BytesIO()
    fields: dict[str, Any] = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.getvalue()
