"""Writes a folder of shards with bounded memory; their hashes are computed on the way."""

from __future__ import annotations

import hashlib
import math
import mmap
import zlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import DType, StorageError, numpy_dtype
from ttf_storage._atomic_file import AtomicFile, RowsWriter
from ttf_storage._folder_output import FolderOutput
from ttf_storage._npz_writer import npy_header
from ttf_storage._objects_manifest import ArrayEntry, ShardEntry, written
from ttf_storage.objects_store import MANIFEST

SHARD_BYTES: Final = 128 << 20
_PAGES: Final = (2 << 20, 64 << 10, mmap.PAGESIZE, 1)  # Huge pages take fewer look-ups.
_HASH_DIGITS: Final = 16


def rows_per_shard(row_bytes: int) -> int:
    """Whole pages, if that is possible below twice the size: mapped one after another, such shards
    are one array."""
    row_bytes = max(1, row_bytes)
    for page in _PAGES:
        unit = math.lcm(row_bytes, page)
        if unit <= SHARD_BYTES:
            return SHARD_BYTES // unit * unit // row_bytes
    return 1


class _ShardWriter(RowsWriter):
    """One array. A shard is durable before the next one begins."""

    def __init__(
        self, output: FolderOutput, number: int, name: str, shape: tuple[int, ...], dtype: DType
    ) -> None:
        super().__init__(name, tuple(int(n) for n in shape), dtype)
        held = numpy_dtype(dtype)
        self._begin(output, number, npy_header(self.shape, held), held.itemsize)

    def _begin(self, output: FolderOutput, number: int, header: bytes, itemsize: int) -> None:
        self.shards: list[ShardEntry] = []
        self._output = output
        self._number = number  # of the first shard in the folder
        self._shard_rows = rows_per_shard(math.prod(self.shape[1:]) * itemsize)
        self._crc = zlib.crc32(header)
        self._file: AtomicFile | None = None
        self._digest = hashlib.sha256()
        self._rows_here = 0

    def append(self, rows: NDArray[Any]) -> None:
        self._append(self.checked(rows))

    def _append(self, block: NDArray[Any]) -> None:
        while len(block) and block.size:
            piece = block[: self._shard_rows - self._rows_here]
            block = block[len(piece) :]
            data = piece.reshape(-1).view(np.uint8).data
            self._current().append(data)
            self._digest.update(data)
            self._crc = zlib.crc32(data, self._crc)
            self._rows_here += len(piece)
            self.rows_done += len(piece)
            if self._rows_here == self._shard_rows:
                self._end_shard()

    def finish(self) -> None:
        self.check_complete()
        if self._file is not None:
            self._end_shard()

    def discard(self) -> None:
        if self._file is not None:
            self._file.discard()
            self._file = None

    def entry(self) -> ArrayEntry:
        return ArrayEntry(
            name=self.name, shape=self.shape, dtype=self.dtype, shards=tuple(self.shards)
        )

    def _current(self) -> AtomicFile:
        if self._file is None:
            self._file = AtomicFile(self._output.path / "shard")
            self._digest, self._rows_here = hashlib.sha256(), 0
        return self._file

    def _end_shard(self) -> None:
        assert self._file is not None
        sha256 = self._digest.hexdigest()
        # Another content has another name: an upload over older data overwrites no shard in use.
        name = f"{self._number + len(self.shards):05d}-{sha256[:_HASH_DIGITS]}.bin"
        self._file.target = self._output.path / name
        size = self._file.position
        self._file.publish()
        self._file = None
        self.shards.append(
            ShardEntry(file=name, rows=self._rows_here, bytes=size, sha256=sha256, crc32=self._crc)
        )
        self._rows_here = 0


class _TextWriter(_ShardWriter):
    """An array of strings of one length, as numpy holds them."""

    def __init__(
        self, output: FolderOutput, number: int, name: str, text: NDArray[np.str_]
    ) -> None:
        RowsWriter.__init__(self, name, text.shape, "uint8")
        self._type = text.dtype.str
        self._begin(output, number, npy_header(text.shape, text.dtype), text.dtype.itemsize)
        self._append(text)

    def entry(self) -> ArrayEntry:
        return ArrayEntry(
            name=self.name, shape=self.shape, dtype=self._type, shards=tuple(self.shards)
        )


class ObjectsWriter:
    """The manifest is written last; the folder gets its name when it is complete."""

    def __init__(self, uri: str) -> None:
        self._output = FolderOutput(uri)
        self._array: _ShardWriter | None = None
        self._entries: list[ArrayEntry] = []

    def array(self, name: str, shape: tuple[int, ...], dtype: DType) -> _ShardWriter:
        number = self._start(name)
        self._array = _ShardWriter(self._output, number, name, shape, dtype)
        return self._array

    def text_array(self, name: str, values: NDArray[np.str_]) -> None:
        """Writes an array of strings, whole."""
        number = self._start(name)
        text = np.asarray(values, order="C")
        text = text.astype(
            f"<U{max(1, text.dtype.itemsize // np.dtype('U1').itemsize)}", copy=False
        )
        self._array = _TextWriter(self._output, number, name, text)
        self._finish_array()

    def commit(self) -> None:
        self._finish_array()
        if not self._entries:
            raise ValueError(f"{self._output.target}: no array was written")
        try:
            manifest = AtomicFile(self._output.path / MANIFEST)
            manifest.append(written(self._entries))
            manifest.publish()
            self._output.publish()
        except StorageError:
            self.abort()
            raise

    def abort(self) -> None:
        if self._array is not None:
            self._array.discard()
        self._output.discard()

    def _start(self, name: str) -> int:
        """Returns the number of the array's first shard."""
        self._finish_array()
        if name in (entry.name for entry in self._entries):
            raise ValueError(f"the array {name!r} was already written")
        return sum(len(entry.shards) for entry in self._entries)

    def _finish_array(self) -> None:
        if self._array is not None:
            self._array.finish()
            self._entries.append(self._array.entry())
            self._array = None
