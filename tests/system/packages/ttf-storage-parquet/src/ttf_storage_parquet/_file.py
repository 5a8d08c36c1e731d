"""One open Parquet file: its identity, its row groups, and its errors in the user's words."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from ttf import BadData, DataChanged, DataMissing, StorageError

_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 4096


class ParquetFile:
    """Read with plain reads, never mapped: of a file that is cut meanwhile a map is a bus error."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()  # a reader of Arrow's serves one thread at a time
        with self.explained():
            self._handle = path.open("rb")
        try:
            self._identity = _identity(os.fstat(self._handle.fileno()))
            with self.explained():
                self._reader = pq.ParquetFile(self._handle, page_checksum_verification=True)
        except BaseException:
            self._handle.close()
            raise
        self.metadata = self._reader.metadata
        self.schema: pa.Schema = self._reader.schema_arrow

    def column(self, group: int, name: str) -> pa.Array:
        """A column of a row group, decoded."""
        with self._lock, self.explained():
            table = self._reader.read_row_group(group, columns=[name], use_threads=False)
            return table.column(name).combine_chunks()

    def sampled(self) -> str:
        """Of the footer and of bytes here and there: other writers leave no digest."""
        digest = hashlib.blake2b(digest_size=16)
        with self._lock, self.explained():
            size = self._identity[2]
            footer = int.from_bytes(self._bytes_at(size - 8, 4), "little") + 8
            digest.update(self._bytes_at(size - footer, footer))
            for number in range(_SAMPLES):
                start = number * max(0, size - _SAMPLE_BYTES) // (_SAMPLES - 1)
                digest.update(self._bytes_at(start, _SAMPLE_BYTES))
        return digest.hexdigest()

    def check_unchanged(self) -> None:
        try:
            now = _identity(self.path.stat())
        except FileNotFoundError:
            what = "was removed"
        else:
            if now == self._identity:
                return
            what = "was replaced" if now[:2] != self._identity[:2] else "was rewritten or cut"
        raise DataChanged(
            f"{self.path} {what} while it was in use.",
            hint="Never change a data file while it is read: write a new file, then rename.",
        )

    def close(self) -> None:
        with self._lock:
            self._reader.close()
            self._handle.close()

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Arrow's errors and the disk's as what the user should see."""
        try:
            yield
        except FileNotFoundError:
            raise DataMissing(f"{self.path}: there is no such file.", hint="Check it.") from None
        except (OSError, pa.ArrowException, ValueError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise StorageError(
                    f"{self.path} could not be read: {error.strerror}.",
                    hint="Check its permissions and the disk.",
                ) from error
            raise BadData(
                f"{self.path} is damaged, or no Parquet file: {error}", hint="Copy it again."
            ) from error

    def _bytes_at(self, start: int, length: int) -> bytes:
        return os.pread(self._handle.fileno(), length, start)


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def column_bytes(metadata: Any, name: str) -> tuple[int, str]:
    """What a column takes in the file, and how it is compressed."""
    size, stored = 0, "stored"
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(number)
            if chunk.path_in_schema.split(".")[0] == name:
                size += chunk.total_compressed_size
                if chunk.compression != "UNCOMPRESSED":
                    stored = chunk.compression.lower()
    return size, stored
