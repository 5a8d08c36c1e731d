"""Writes one array after another beside the target, a row group at a time, and renames."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from ttf import ConfigError, DType, fsync_dir, fsync_file, numpy_dtype, storage_error

from ttf_storage_parquet._layout import DIGEST, as_bytes, field_of, new_digest, to_arrow

GROUP_BYTES: Final = 256 << 10


class ParquetArrayWriter:
    """One array in one file; holds no more than a row group."""

    def __init__(self, path: Path, name: str, shape: tuple[int, ...], dtype: DType) -> None:
        self.path, self.name, self.shape, self.dtype = path, name, shape, dtype
        self.rows_done = 0
        row_bytes = math.prod(shape[1:]) * numpy_dtype(dtype).itemsize
        self._group_rows = max(1, min(GROUP_BYTES // max(1, row_bytes), shape[0]))
        self._pending = np.empty((self._group_rows, *shape[1:]), numpy_dtype(dtype))
        self._num_pending = 0
        self._digest = new_digest(shape[1:], dtype)
        self._field = field_of(name, shape[1:], dtype)
        self._schema = pa.schema([self._field])
        self._file = path.open("xb")
        self._writer = pq.ParquetWriter(
            self._file,
            self._schema,
            compression="none",
            use_dictionary=False,
            write_statistics=False,
            write_page_checksum=True,
        )

    def append(self, rows: NDArray[Any]) -> None:
        if rows.dtype != self._pending.dtype or rows.shape[1:] != self.shape[1:]:
            raise ValueError(
                f"the array {self.name!r} takes {self.dtype} rows of shape {self.shape[1:]}, "
                f"not {rows.dtype} {rows.shape}"
            )
        if self.rows_done + len(rows) > self.shape[0]:
            raise ValueError(f"the array {self.name!r} was announced with {self.shape[0]} rows")
        with explained(self.path):
            for start in range(0, len(rows), self._group_rows):
                self._take(rows[start : start + self._group_rows])

    def finish(self) -> None:
        """Complete and durable; ValueError where rows are missing."""
        if self.rows_done != self.shape[0]:
            raise ValueError(
                f"the array {self.name!r} has {self.rows_done} of {self.shape[0]} rows"
            )
        with explained(self.path):
            self._write_group()
            self._writer.add_key_value_metadata({DIGEST: self._digest.hexdigest()})
            self._writer.close()
            self._file.flush()
            fsync_file(self._file.fileno())
            self._file.close()

    def discard(self) -> None:
        """Gives the file up; whoever calls removes it."""
        with contextlib.suppress(OSError, pa.ArrowException, ValueError):
            self._writer.close()
        with contextlib.suppress(OSError):
            self._file.close()

    def _take(self, rows: NDArray[Any]) -> None:
        """At most a group of rows."""
        room = self._group_rows - self._num_pending
        for part in (rows[:room], rows[room:]):
            self._pending[self._num_pending : self._num_pending + len(part)] = part
            self._num_pending += len(part)
            self.rows_done += len(part)
            if self._num_pending == self._group_rows:
                self._write_group()

    def _write_group(self) -> None:
        if not self._num_pending:
            return
        rows = self._pending[: self._num_pending]
        self._digest.update(as_bytes(rows))
        table = pa.table([to_arrow(rows, self._field)], schema=self._schema)
        self._writer.write_table(table, row_group_size=self._group_rows)
        self._num_pending = 0


class ParquetWriter:
    """A file where there is one array, else a folder; nothing is at the uri before `commit`."""

    def __init__(self, uri: str) -> None:
        self.target = Path(uri.rstrip("/"))
        self._temp = self.target.with_name(f".tmp-{self.target.name}-{os.getpid()}")
        self._old = self.target.with_name(f"{self._temp.name}-old")
        self._arrays: list[ParquetArrayWriter] = []
        self._finished = 0
        self._done = False
        with explained(self.target):
            shutil.rmtree(self._temp, ignore_errors=True)
            self._temp.mkdir()

    def array(self, name: str, shape: tuple[int, ...], dtype: DType) -> ParquetArrayWriter:
        self._finish_last()
        if not name or name.startswith(".") or set(name) & set("./\\") or 0 in shape[1:]:
            raise ConfigError(
                f"{self.target}: {name!r} of shape {shape} cannot be a column: its name has no "
                "dots or slashes, and its rows have a width."
            )
        path = self._temp / f"{name}.parquet"
        if path.exists():
            raise ValueError(f"the array {name!r} was written already")
        with explained(path):
            self._arrays.append(ParquetArrayWriter(path, name, tuple(map(int, shape)), dtype))
        return self._arrays[-1]

    def commit(self) -> None:
        self._finish_last()
        if not self._arrays:
            raise ValueError(f"{self.target}: no array was written")
        with explained(self.target):
            fsync_dir(self._temp)
            self._publish(self._arrays[0].path if len(self._arrays) == 1 else self._temp)
            fsync_dir(self.target.parent)
        self._done = True
        self._clean_up()

    def abort(self) -> None:
        if self._done:
            return
        for array in self._arrays[self._finished :]:
            array.discard()
        if self._old.exists() and not self.target.exists():  # a commit was broken off in between
            self._old.rename(self.target)
        self._clean_up()

    def _finish_last(self) -> None:
        for array in self._arrays[self._finished :]:
            array.finish()
            self._finished += 1

    def _publish(self, written: Path) -> None:
        """A file takes a file's place in one step; a folder's place has to be cleared first."""
        if self.target.exists() and (self.target.is_dir() or written.is_dir()):
            self.target.rename(self._old)
        written.replace(self.target)

    def _clean_up(self) -> None:
        shutil.rmtree(self._temp, ignore_errors=True)
        if self._old.is_file():
            self._old.unlink()
        shutil.rmtree(self._old, ignore_errors=True)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """What the disk refuses as the error that says so."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, str(path)) from error
