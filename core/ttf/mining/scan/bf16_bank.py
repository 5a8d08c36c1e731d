"""A bank in bfloat16, with its rounding residuals: kept in the cache, or made block by block.

Stored at `<cache>/half/<key>/`, once for all runs; a copy is used only after every byte matched its
hash. Exact values come from the bank itself, through `full`.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.contracts import Progress, VectorSource
from ttf.data.kept_for import content_key
from ttf.data.vectors import FLOATS, npy_header, seen_as_writable, to_float32
from ttf.errors import ArtifactDamaged, BadData, EntryRefused, StorageError
from ttf.host import notices
from ttf.mining.scan.error_bounds import Rounded, rounded
from ttf.mining.scan.float32_rows import gather_float32, read_float32
from ttf.rundir.durable import OpenFile, write_manifest, write_new
from ttf.rundir.removing import folder_written_whole
from ttf.rundir.verified_folders import (
    MANIFEST,
    PRIVATE,
    folder_key,
    lock_folder,
    refuse_others,
    verified_manifest,
)
from ttf.text.numbers import size

Say = Callable[[str], None]

FORMAT: Final = 1
_AREA: Final = "half"
_BITS, _NORMS, _RESIDUALS = "half.npy", "norms.npy", "residuals.npy"
_COPIED_ROWS: Final = 8192
_BLOCK_ROWS: Final = 4096
# Required free disk, as a multiple of the copy's size: a cache never fills the disk.
ROOM: Final = 3


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
        # The map is closed with the last tensor that uses it.
        self.bits = np.empty((0, 0), np.uint16)


def key_of(source: VectorSource) -> str:
    return folder_key({"bank": content_key(source), "shape": list(source.shape), "format": FORMAT})


def size_of(source: VectorSource) -> int:
    rows, dim = source.shape
    return rows * (2 * dim + 8) + 4096


def ready(source: VectorSource, cache: Path, say: Say, progress: Progress | None) -> Files | None:
    """The copy of this bank, made if there is none; None, with a message, if it cannot be stored.

    Two runs never make the same copy at once; the second waits and uses it.
    """
    folder = cache / "half" / key_of(source)
    try:
        # `say` may be heard only after the search, and who waits wants to know now.
        lock = lock_folder(folder, notices.say)
    except (OSError, EntryRefused) as error:
        say(
            f"The cache {folder.parent} cannot be used ({error}). ttf converts the bank to "
            "bfloat16 in each pass."
        )
        return None
    with lock:
        return _kept(folder, source, say) or _made(folder, source, say, progress)


def _kept(folder: Path, source: VectorSource, say: Say) -> Files | None:
    if not folder.exists():
        return None
    try:
        refuse_others(folder)
        verified_manifest(folder, "The copy", names=(_BITS, _NORMS, _RESIDUALS))
        return Files(folder, (source.shape[0], source.shape[1]))
    except (ArtifactDamaged, OSError, ValueError) as error:
        say(f"{error} ttf makes a new bfloat16 copy of the bank.")
        return None


def _made(folder: Path, source: VectorSource, say: Say, progress: Progress | None) -> Files | None:
    needed = size_of(source)
    free = shutil.disk_usage(folder.parent).free
    if free < ROOM * needed:
        say(
            f"ttf does not save the bfloat16 copy of the bank ({size(needed)}), because "
            f"{folder.parent} has only {size(free)} of free space. {ROOM} times the size of the "
            "copy must be free. ttf converts the bank in each pass."
        )
        return None
    try:
        with folder_written_whole(folder, _AREA) as temp:
            hashes = _write(temp, source, progress)
            write_manifest(temp / MANIFEST, {"format": FORMAT}, hashes, _AREA)
            temp.chmod(PRIVATE)
    except StorageError as error:
        say(f"{error} The bfloat16 copy of the bank was not saved. {error.hint}".rstrip())
        return None
    say(f"ttf saved a bfloat16 copy of the bank ({size(needed)}) in {folder}.")
    return Files(folder, (source.shape[0], source.shape[1]))


def _write(folder: Path, source: VectorSource, progress: Progress | None) -> dict[str, str]:
    rows, dim = source.shape
    norms, residuals = np.empty(rows, np.float32), np.empty(rows, np.float32)
    file = OpenFile(folder / _BITS, _AREA)
    try:
        file.write(npy_header((rows, dim), np.dtype("<u2")))
        for start in range(0, rows, _COPIED_ROWS):
            stop = min(start + _COPIED_ROWS, rows)
            block = rounded(torch.from_numpy(read_float32(source, start, stop)))
            file.write(block.half.view(torch.uint16).numpy().data)
            norms[start:stop] = block.norms
            residuals[start:stop] = block.residuals
            if progress is not None:
                progress(stop, rows)
    finally:
        file.close()
    header, bounds = npy_header((rows,), np.dtype("<f4")), {_NORMS: norms, _RESIDUALS: residuals}
    return {_BITS: file.sha256} | {
        name: write_new(folder / name, header + values.tobytes(), _AREA)
        for name, values in bounds.items()
    }


class HalfBank(ABC):
    """Safe to call from several threads; close it when done."""

    kept: bool  # True if the bfloat16 copy is on disk: reading it costs half of reading the bank.

    def __init__(self, source: VectorSource) -> None:
        self._source = source
        self.shape = (source.shape[0], source.shape[1])

    def half(self, start: int, stop: int) -> torch.Tensor:
        """Rows in bfloat16, nearest even; read-only, may be the file itself."""
        return self.block(range(start, stop)).half

    @abstractmethod
    def block(self, ids: range) -> Rounded:
        """`half` of rows at equal distances, with their bounds."""

    def full(self, start: int, stop: int) -> torch.Tensor:
        """Rows in float32 as in the bank, in memory of their own."""
        return self.full_block(range(start, stop))

    def full_block(self, ids: range) -> torch.Tensor:
        """`full` of rows at equal distances."""
        if ids.step == 1:
            return torch.from_numpy(read_float32(self._source, ids.start, ids.stop))
        return torch.from_numpy(
            gather_float32(self._source, np.arange(len(ids)) * ids.step + ids.start)
        )

    def rows(
        self, ids: NDArray[np.int64], out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Some rows in float32, in `out` if that helps. Not checked, unlike those of the other
        methods."""
        if self._source.dtype == "float32":
            return np.ascontiguousarray(self._source.gather(ids, out))
        stored = self._source.gather(ids)
        into = np.empty(stored.shape, np.float32) if out is None else out
        if self._source.dtype == "float16":
            torch.from_numpy(into).copy_(torch.from_numpy(stored))  # twenty times numpy's speed
        else:
            into[:] = to_float32(stored, self._source.dtype)
        return into

    @abstractmethod
    def some(self, ids: NDArray[np.int64]) -> Rounded:
        """Some rows in bfloat16, with their bounds."""

    @property
    @abstractmethod
    def norms(self) -> NDArray[np.float32]:
        """Upper bounds of every row's length. Without a stored copy the first call reads the
        bank."""

    @property
    @abstractmethod
    def residuals(self) -> NDArray[np.float32]:
        """Upper bounds of every row's rounding residual; see `norms`."""

    @abstractmethod
    def close(self) -> None:
        """Closes the copy; the caller owns the source."""


def open_half(
    source: VectorSource, cache: Path | None, say: Say, *, progress: Progress | None = None
) -> HalfBank:
    """The bank's bfloat16 copy: from `cache`, or made and stored there. Without a cache, or if it
    cannot be stored, it is made on the fly with the memory of a block.

    `progress` counts rows while a copy is made. Raises BadData if a row is not finite.
    """
    if source.dtype not in FLOATS or len(source.shape) != 2:
        raise BadData(
            f"{source.name} in {source.uri} has the type {source.dtype} and the shape "
            f"{source.shape}. It must be float32, float16 or bfloat16 with the shape (rows, dim)."
        )
    if cache is None:
        return FlyingHalf(source)
    files = ready(source, cache, say, progress)
    return FlyingHalf(source) if files is None else KeptHalf(source, files)


class KeptHalf(HalfBank):
    """Reads the copy in the cache, mapped."""

    kept = True

    def __init__(self, source: VectorSource, files: Files) -> None:
        super().__init__(source)
        self._files = files

    def block(self, ids: range) -> Rounded:
        return self._at(slice(ids.start, ids.stop, ids.step))

    def some(self, ids: NDArray[np.int64]) -> Rounded:
        return self._at(ids)

    def _at(self, which: slice | NDArray[np.int64]) -> Rounded:
        bits = np.ascontiguousarray(self._files.bits[which])
        return Rounded(
            half=torch.from_numpy(bits).view(torch.bfloat16),
            norms=np.ascontiguousarray(self.norms[which]),
            residuals=np.ascontiguousarray(self.residuals[which]),
        )

    @property
    def norms(self) -> NDArray[np.float32]:
        return self._files.norms

    @property
    def residuals(self) -> NDArray[np.float32]:
        return self._files.residuals

    def close(self) -> None:
        self._files.close()


class FlyingHalf(HalfBank):
    """Rounds rows at every read."""

    kept = False

    def block(self, ids: range) -> Rounded:
        return rounded(self.full_block(ids))

    def some(self, ids: NDArray[np.int64]) -> Rounded:
        return rounded(torch.from_numpy(gather_float32(self._source, ids)))

    @property
    def norms(self) -> NDArray[np.float32]:
        return self._bounds[0]

    @property
    def residuals(self) -> NDArray[np.float32]:
        return self._bounds[1]

    @cached_property
    def _bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        norms, residuals = (np.empty(self.shape[0], np.float32) for _ in range(2))
        for start in range(0, self.shape[0], _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, self.shape[0])
            block = self.block(range(start, stop))
            norms[start:stop] = block.norms
            residuals[start:stop] = block.residuals
        return norms, residuals

    def close(self) -> None:
        """Nothing is held."""
