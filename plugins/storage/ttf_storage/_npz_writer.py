"""Writes .npz and .npy files of any size in one pass. Arrays start at page boundaries."""

from __future__ import annotations

import io
import math
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ttf import ConfigError, DType, numpy_dtype
from ttf_storage._atomic_file import AtomicFile, RowsWriter
from ttf_storage._npz_reader import NPY_ARRAY
from ttf_storage._zip_format import CRC_OFFSET, Entry, central_directory, local_header

_PIECE_BYTES: Final = 8 << 20


class NpyArrayWriter(RowsWriter):
    """One array of the file, with a running checksum."""

    def __init__(self, file: AtomicFile, name: str, shape: tuple[int, ...], dtype: DType) -> None:
        super().__init__(name, shape, dtype)
        self.crc = 0
        self._file = file

    def append(self, rows: NDArray[Any]) -> None:
        block = self.checked(rows)
        data = block.reshape(-1).view(np.uint8).data
        for start in range(0, len(data), _PIECE_BYTES):
            self.write(data[start : start + _PIECE_BYTES])
        self.rows_done += len(block)

    def write(self, data: bytes | memoryview) -> None:
        self.crc = zlib.crc32(data, self.crc)
        self._file.append(data)


class NpzWriter:
    """Aligned members, always zip64. Equal arrays in equal order give equal bytes."""

    def __init__(self, uri: str) -> None:
        self._file = AtomicFile(Path(uri))
        self._entries: list[Entry] = []
        self._open: tuple[NpyArrayWriter, bytes, int, int] | None = None

    def array(self, name: str, shape: tuple[int, ...], dtype: DType) -> NpyArrayWriter:
        self._finish_array()
        held = numpy_dtype(dtype)
        size = math.prod(shape) * held.itemsize
        return self._start(name, shape, dtype, npy_header(shape, held), size)

    def text_array(self, name: str, values: NDArray[np.str_]) -> None:
        """Writes an array of strings, whole."""
        self._finish_array()
        text = np.asarray(values, order="C")
        header = npy_header(text.shape, text.dtype)
        self._start(name, (0,), "uint8", header, text.nbytes).write(text.tobytes())
        self._finish_array()

    def commit(self) -> None:
        self._finish_array()
        self._file.append(central_directory(self._entries, self._file.position))
        self._file.publish()

    def abort(self) -> None:
        self._file.discard()

    def _start(
        self, name: str, shape: tuple[int, ...], dtype: DType, header: bytes, size: int
    ) -> NpyArrayWriter:
        filename, offset = f"{name}.npy".encode(), self._file.position
        if filename in (e.filename for e in self._entries):
            raise ValueError(f"the array {name!r} was already written")
        total = len(header) + size
        self._file.append(local_header(filename, total, offset, len(header)))
        writer = NpyArrayWriter(self._file, name, shape, dtype)
        writer.write(header)
        self._open = (writer, filename, offset, total)
        return writer

    def _finish_array(self) -> None:
        if self._open is None:
            return
        writer, filename, offset, total = self._open
        writer.check_complete()
        self._file.patch(writer.crc.to_bytes(4, "little"), offset + CRC_OFFSET)
        self._entries.append(Entry(filename, offset, total, writer.crc))
        self._open = None
        if writer.dtype == "bfloat16":
            self._mark(writer.name)

    def _mark(self, name: str) -> None:
        # A string member names the type of the uint16 bits.
        self.text_array(f"{name}.dtype", np.array("bfloat16", dtype="<U8"))


class NpyWriter:
    """A .npy file: one array; its name is not stored."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._file = AtomicFile(Path(uri))
        self._array: NpyArrayWriter | None = None

    def array(self, name: str, shape: tuple[int, ...], dtype: DType) -> NpyArrayWriter:
        if self._array is not None or dtype == "bfloat16":
            self.abort()
            what = "bfloat16" if dtype == "bfloat16" else "more than one array"
            raise ConfigError(
                f"{self._uri}: a .npy file cannot hold {what}.",
                hint=(
                    f"Use an output that ends in .npz: its arrays can have any names ({NPY_ARRAY})."
                ),
            )
        self._file.append(npy_header(shape, numpy_dtype(dtype)))
        self._array = NpyArrayWriter(self._file, name, shape, dtype)
        return self._array

    def commit(self) -> None:
        if self._array is None:
            raise ValueError("nothing was written")
        self._array.check_complete()
        self._file.publish()

    def abort(self) -> None:
        self._file.discard()


def npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    stream = io.BytesIO()
    npy_format.write_array_header_1_0(
        stream,
        {
            "descr": npy_format.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": tuple(int(n) for n in shape),
        },
    )
    return stream.getvalue()
