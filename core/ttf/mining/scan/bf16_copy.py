"""bfloat16 copies of banks in the cache: `<cache>/half/<key>/`, made once, verified before use."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.contracts import Progress, VectorSource
from ttf.errors import ArtifactDamaged, StorageError
from ttf.mining.scan.float32_rows import read_float32
from ttf.mining.scan.rounding import rounded
from ttf.rundir.durable import (
    TEMP_PREFIX,
    OpenFile,
    folder_written_whole,
    read_json,
    sha256_file,
    write_json,
    write_new,
)

Say = Callable[[str], None]

FORMAT: Final = 1
_AREA: Final = "half"
_MANIFEST: Final = "manifest.json"
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
        self.bits = _not_warned_about(mapped)

    def close(self) -> None:
        """The map goes with the last tensor that looks into it."""
        self.bits = np.empty((0, 0), np.uint16)


class _Writable:
    def __init__(self, rows: NDArray[np.uint16]) -> None:
        address, _ = rows.__array_interface__["data"]
        self.__array_interface__ = {**rows.__array_interface__, "data": (address, False)}
        self.owner = rows


def _not_warned_about(mapped: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """The same map, said to be writable: torch warns about others. Nobody writes; a private map
    would count as memory of our own."""
    if not mapped.size:
        return np.array(mapped)
    return np.asarray(_Writable(mapped))


def key_of(source: VectorSource) -> str:
    made_from = {"bank": source.fingerprint(), "shape": list(source.shape), "format": FORMAT}
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:24]


def size_of(source: VectorSource) -> int:
    rows, dim = source.shape
    return rows * (2 * dim + 8) + 4096


def ready(source: VectorSource, cache: Path, say: Say, progress: Progress | None) -> Files | None:
    """The copy of this bank, made where there is none; None where it cannot be kept, and said.

    Two runs never make the same copy at once; the second waits and uses it.
    """
    import filelock

    folder = cache / "half" / key_of(source)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder.with_suffix(".lock"))
        lock.acquire()
    except OSError as error:
        say(f"The cache {folder.parent} cannot be used ({error}); the bank is rounded on the fly.")
        return None
    try:
        for left in folder.parent.glob(f"{TEMP_PREFIX}{folder.name}-*"):
            shutil.rmtree(left, ignore_errors=True)  # of makers that were killed: we hold the lock
        return _kept(folder, source, say) or _made(folder, source, say, progress)
    finally:
        lock.release()


def _kept(folder: Path, source: VectorSource, say: Say) -> Files | None:
    if not folder.exists():
        return None
    try:
        _verify(folder)
        return Files(folder, (source.shape[0], source.shape[1]))
    except (ArtifactDamaged, OSError, ValueError) as error:
        say(f"{error} The bank's bfloat16 copy is made anew.")
        return None


def _verify(folder: Path) -> None:
    try:
        hashes = dict(read_json(folder / _MANIFEST)["sha256"])
        found = {name: sha256_file(folder / name) for name in (_BITS, _NORMS, _RESIDUALS)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactDamaged(
            f"The copy {folder} is not whole ({type(error).__name__}: {error})."
        ) from error
    for name, digest in found.items():
        if hashes.get(name) != digest:
            raise ArtifactDamaged(f"{folder / name} does not match its hash.")


def _made(folder: Path, source: VectorSource, say: Say, progress: Progress | None) -> Files | None:
    size = size_of(source)
    free = shutil.disk_usage(folder.parent).free
    if free < ROOM * size:
        say(
            f"The bank's bfloat16 copy ({_size(size)}) is not kept: {folder.parent} has "
            f"{_size(free)} free, and {ROOM} times its size should be. It is made on the fly."
        )
        return None
    try:
        with folder_written_whole(folder, _AREA) as temp:
            hashes = _write(temp, source, progress)
            write_json(temp / _MANIFEST, {"sha256": hashes, "format": FORMAT}, _AREA)
    except StorageError as error:
        say(f"{error} The bank's bfloat16 copy is not kept. {error.hint}".rstrip())
        return None
    say(f"The bank's bfloat16 copy ({_size(size)}) is kept in {folder}.")
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


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.2f} GiB" if num_bytes >= 2**30 else f"{num_bytes / 2**20:.1f} MiB"
