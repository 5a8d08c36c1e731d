"""Uncompressed zarr rows, read directly from mapped chunk or shard files."""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import DataChanged, DType, numpy_dtype
from ttf_storage._content_sample import sampled
from ttf_storage._mapped import MappedFile, check_identity
from ttf_storage._stored_rows import MappedStoredRows
from ttf_storage._zarr_files import ChunkFile
from ttf_storage._zarr_meta import ArrayMeta
from ttf_storage._zarr_region import Region

# Per array. Each map holds a file descriptor, and macOS allows a process 256.
_OPEN_MAPS: Final = 48


class MappedChunks:
    """The row matrix of each file, mapped on first use. The least recently used are unmapped.

    For arrays that `Region` cannot take: chunks that do not line up, or too many files.
    """

    def __init__(
        self, files: list[ChunkFile], row_bytes: int, chunk_rows: int, file_rows: int
    ) -> None:
        self._files = files
        self._file_rows = file_rows
        self._row_bytes = row_bytes
        self._chunk_rows = chunk_rows
        self._open: OrderedDict[int, tuple[MappedFile, int]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, rows: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        """Copies rows of the array, file by file. All are within it."""
        file = rows // self._file_rows
        order = np.argsort(file, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(file[order])) + 1):
            number = int(file[part[0]])
            within = rows[part] - number * self._file_rows
            if part[-1] - part[0] + 1 == len(part):
                self._take_from_file(number, within, out[part[0] : part[-1] + 1])
                continue
            rows_of_file = np.empty((len(part), out.shape[1]), np.uint8)
            self._take_from_file(number, within, rows_of_file)
            out[part] = rows_of_file

    on_disk = False

    def will_need(self, rows: NDArray[np.int64]) -> None:
        """Does nothing: files are mapped and unmapped all the time here."""

    def contiguous(self, start: int, stop: int, itemsize: int) -> NDArray[Any] | None:
        """Returns rows start..stop as a view, or None if they are not contiguous in one file."""
        file = start // self._file_rows
        if stop == start or (stop - 1) // self._file_rows != file:
            return None
        first = file * self._file_rows
        return self._contiguous_in(file, start - first, stop - first, itemsize)

    def _take_from_file(self, file: int, rows: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        """Copies rows of one file, numbered from its first row, as bytes."""
        offsets = self._files[file].offsets
        mapped, base = self._map(file)
        chunk = rows // self._chunk_rows
        within = rows - chunk * self._chunk_rows
        if base >= 0:
            matrix = self._matrix(mapped, base)
            lines = (offsets[chunk] - base) // self._row_bytes + within
            np.take(matrix, lines, axis=0, out=out, mode="clip")
            return
        for number in np.unique(chunk):
            picked = np.flatnonzero(chunk == number)
            shape = (self._chunk_rows, self._row_bytes)
            piece = mapped.view(int(offsets[number]), shape, np.uint8)
            out[picked] = np.take(piece, within[picked], axis=0, mode="clip")

    def _contiguous_in(
        self, file: int, start: int, stop: int, itemsize: int
    ) -> NDArray[Any] | None:
        mapped, base = self._map(file)
        if base < 0 or base % itemsize:
            return None
        first, last = start // self._chunk_rows, (stop - 1) // self._chunk_rows
        places = self._files[file].offsets[first : last + 1]
        if (np.diff(places) != self._chunk_rows * self._row_bytes).any():
            return None
        line = (int(places[0]) - base) // self._row_bytes + start - first * self._chunk_rows
        return self._matrix(mapped, base)[line : line + stop - start]

    def close(self) -> None:
        with self._lock:
            for mapped, _ in self._open.values():
                mapped.close()
            self._open.clear()

    def _matrix(self, mapped: MappedFile, base: int) -> NDArray[np.uint8]:
        lines = (mapped.size - base) // self._row_bytes
        return mapped.view(base, (lines, self._row_bytes), np.uint8)

    def _map(self, file: int) -> tuple[MappedFile, int]:
        with self._lock:
            known = self._open.get(file)
            if known is not None:
                self._open.move_to_end(file)
                return known
            opened = self._files[file]
            mapped = MappedFile(opened.path)
            if mapped.identity != opened.identity:
                check_identity(opened.path, opened.identity)
                raise DataChanged(f"{opened.path} changed while it was in use.")
            self._open[file] = mapped, self._base(opened.offsets)
            while len(self._open) > _OPEN_MAPS:
                self._open.popitem(last=False)  # unmapped with the last view on it
            return self._open[file]

    def _base(self, offsets: NDArray[np.int64]) -> int:
        """Returns the start of the file's matrix of rows, or -1 if its chunks do not line up."""
        used = offsets[offsets >= 0]
        base = int(used[0]) % self._row_bytes
        return -1 if ((used - base) % self._row_bytes).any() else base


class DirectRows(MappedStoredRows):
    """A zarr array of plain bytes, chunked along rows, read like a memory map."""

    aligned = True

    def __init__(
        self, name: str, uri: str, meta: ArrayMeta, dtype: DType, files: list[ChunkFile]
    ) -> None:
        super().__init__(name, uri, meta.shape, dtype)
        self._meta = meta
        self._files = files
        self._itemsize = numpy_dtype(dtype).itemsize
        row_bytes = max(1, math.prod(meta.shape[1:], start=self._itemsize))
        self._rows: Region | MappedChunks = Region.over(
            files, row_bytes, meta.chunks[0]
        ) or MappedChunks(files, row_bytes, meta.chunks[0], meta.files[0])

    def _copy(self, start: int, stop: int, into: NDArray[Any]) -> None:
        self._take(np.arange(start, stop), into)

    def _view(self, start: int, stop: int) -> NDArray[Any] | None:
        if stop == start or 0 in self.shape:
            return None
        view = self._rows.contiguous(start, stop, self._itemsize)
        if view is None:
            return None
        return view.view(numpy_dtype(self.dtype)).reshape(-1, *self.shape[1:])

    def _digest(self) -> str:
        digest = hashlib.blake2b(files_digest(self._meta, self._files).encode(), digest_size=16)
        if self.shape[0]:  # the end of the last file may be padding
            digest.update(self.gather(np.array([-1])).tobytes())
        return digest.hexdigest()

    def close(self) -> None:
        self._rows.close()


def files_digest(meta: ArrayMeta, files: list[ChunkFile], missing: Sequence[str] = ()) -> str:
    """Returns a digest of the metadata, chunk positions, file sizes and a sample of the bytes.
    `missing`: the files that do not exist.

    Plain chunks have no checksum. A change in place that keeps all sizes is noticed only in the
    sample (see `_content_sample`), or by `check_unchanged` while the store is open.
    """
    digest = hashlib.blake2b(meta.raw, digest_size=16)
    digest.update("".join(missing).encode())
    for file in files:
        digest.update(f"{file.path.name}:{file.identity.size}".encode())
        digest.update(file.offsets.tobytes())
    for piece in sampled([f.path for f in files], [f.identity.size for f in files]):
        digest.update(piece)
    return digest.hexdigest()
