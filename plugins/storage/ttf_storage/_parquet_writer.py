"""Writes Parquet: a file for one array, else a folder with a file per array.

One table cannot hold training and validation arrays, which have different numbers of rows.
"""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ttf import (
    ConfigError,
    DType,
    fsync_dir,
    numpy_dtype,
    remove_if_possible,
    storage_error,
    temporary_folder,
)
from ttf_storage._atomic_file import AtomicFile, RowsWriter
from ttf_storage._table_columns import MARKER

_GROUP_BYTES: Final = 16 << 20
_PAGE_BYTES: Final = 1 << 20


class _Sink:
    """What Arrow writes to: errors of the disk stay errors of ttf."""

    def __init__(self, file: AtomicFile) -> None:
        self._file = file
        self.closed = False
        self.discarded = False

    def write(self, data: Any) -> int:
        if not self.discarded:
            self._file.append(memoryview(data))
        return len(data)

    def tell(self) -> int:
        return self._file.position

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


class ParquetArrayWriter(RowsWriter):
    """One column in a file of its own, in row groups of 16 MiB."""

    def __init__(self, path: Path, name: str, shape: tuple[int, ...], dtype: DType) -> None:
        super().__init__(name, shape, dtype)
        row_bytes = math.prod(shape[1:], start=numpy_dtype(dtype).itemsize)
        self._kind = pa.from_numpy_dtype("uint16" if dtype == "bfloat16" else numpy_dtype(dtype))
        self._file = AtomicFile(path)
        kind = self._kind
        for width in reversed(shape[1:]):
            kind = pa.list_(pa.field("element", kind, nullable=False), width)
        marks = {MARKER: b"bfloat16"} if dtype == "bfloat16" else None
        self._open(pa.field(name, kind, nullable=False, metadata=marks))
        self._pending: list[NDArray[Any]] = []
        self._pending_rows = 0
        self._group_rows = max(1, _GROUP_BYTES // max(1, row_bytes))

    def _open(self, field: pa.Field) -> None:
        self._schema = pa.schema([field])
        self._sink = _Sink(self._file)
        self._writer = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression="none",  # vectors hardly shrink
            use_dictionary=False,
            write_page_checksum=True,
            data_page_size=_PAGE_BYTES,
        )

    def append(self, rows: NDArray[Any]) -> None:
        block = self.checked(rows)
        self.rows_done += len(block)
        while len(block):
            room = self._group_rows - self._pending_rows
            self._pending.append(block[:room].copy())
            self._pending_rows += len(block[:room])
            block = block[room:]
            if self._pending_rows == self._group_rows:
                self._write_group()

    def finish(self) -> None:
        self.check_complete()
        self._write_group()
        self._close()

    def discard(self) -> None:
        self._sink.discarded = True  # Arrow writes a footer when it is closed
        with contextlib.suppress(pa.ArrowException):
            self._writer.close()
        self._file.discard()

    def _write_group(self) -> None:
        if not self._pending:
            return
        rows = np.concatenate(self._pending)
        self._pending, self._pending_rows = [], 0
        kinds, kind = [], self._schema.field(0).type
        while pa.types.is_fixed_size_list(kind):
            kinds.append(kind)
            kind = kind.value_type
        column = pa.array(rows.reshape(-1), type=kind)
        for outer in reversed(kinds):
            column = pa.FixedSizeListArray.from_arrays(column, type=outer)
        self._write(column)

    def _write(self, column: pa.Array) -> None:
        table = pa.table([column], schema=self._schema)
        self._writer.write_table(table, row_group_size=max(1, len(column)))

    def _close(self) -> None:
        self._writer.close()
        self._file.publish()


class _TextWriter(ParquetArrayWriter):
    """A column of strings."""

    def __init__(self, path: Path, name: str, values: NDArray[np.str_]) -> None:
        RowsWriter.__init__(self, name, values.shape, "uint8")
        self._file = AtomicFile(path)
        self._open(pa.field(name, pa.string(), nullable=False))
        self._write(pa.array(values.tolist(), type=pa.string()))
        self._close()


class ParquetWriter:
    """A temporary folder beside the target; it, or the one file in it, is renamed at the end."""

    def __init__(self, uri: str) -> None:
        self.target = Path(uri.rstrip("/"))
        try:
            self._temporary = temporary_folder(self.target)
        except OSError as error:
            raise storage_error(error, str(self.target)) from error
        self._temp = self._temporary.path
        self._old = self.target.with_name(f"{self._temp.name}-old")
        self._files: list[Path] = []
        self._array: ParquetArrayWriter | None = None
        self._done = False

    def array(self, name: str, shape: tuple[int, ...], dtype: DType) -> ParquetArrayWriter:
        path = self._next(name)
        if 0 in shape[1:]:
            raise ConfigError(
                f"{self.target}: Parquet has no rows of no width ({name!r}: {shape})."
            )
        self._array = ParquetArrayWriter(path, name, tuple(map(int, shape)), dtype)
        return self._array

    def text_array(self, name: str, values: NDArray[np.str_]) -> None:
        """Writes an array of strings, whole."""
        _TextWriter(self._next(name), name, values)

    def commit(self) -> None:
        self._finish_array()
        if not self._files:
            raise ValueError(f"{self.target}: no array was written")
        written = self._files[0] if len(self._files) == 1 else self._temp
        try:
            fsync_dir(self._temp)
            # A file takes the place of a file in one step; a folder cannot.
            if self.target.exists() and (self.target.is_dir() or written.is_dir()):
                self.target.rename(self._old)
            written.replace(self.target)
            fsync_dir(self.target.parent)
        except OSError as error:
            self.abort()
            raise storage_error(error, str(self.target)) from error
        self._done = True
        if written is self._temp:
            self._temporary.close()
        else:
            self._temporary.remove()
        remove_if_possible(self._old, self._old.parent)

    def abort(self) -> None:
        if self._done:
            return
        if self._array is not None:
            self._array.discard()
        self._temporary.remove()
        if self._old.exists() and not self.target.exists():  # between the two renames of a commit
            self._old.rename(self.target)
        remove_if_possible(self._old, self._old.parent)

    def _next(self, name: str) -> Path:
        self._finish_array()
        if not name or name.startswith((".", "_")) or set(name) & set("/\\."):
            raise ConfigError(
                f"{self.target}: {name!r} cannot be the name of a column here: dots, slashes and a "
                "leading underscore have a meaning."
            )
        path = self._temp / f"{name}.parquet"
        if path in self._files:
            raise ValueError(f"the array {name!r} was already written")
        self._files.append(path)
        return path

    def _finish_array(self) -> None:
        if self._array is not None:
            self._array.finish()
            self._array = None
