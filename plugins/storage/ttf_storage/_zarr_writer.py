"""Writes a zarr v3 group of uncompressed, sharded arrays with bounded memory, without zarr.

Shards hold their chunks in natural order with the index at the end. A shard of whole rows is a
matrix that any reader can map; the zarr library reads it, too.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import ConfigError, DType, StorageError, numpy_dtype, storage_error
from ttf_storage._atomic_file import AtomicFile, RowsWriter
from ttf_storage._folder_output import FolderOutput
from ttf_storage._zarr_files import crc32c

CHUNK_BYTES: Final = 256 << 10
SHARD_BYTES: Final = 512 << 20
_EMPTY: Final = np.uint64(2**64 - 1)


class ZarrArrayWriter(RowsWriter):
    """One array. A shard is completely on disk before the next one starts."""

    def __init__(self, folder: Path, name: str, shape: tuple[int, ...], dtype: DType) -> None:
        super().__init__(name, tuple(int(n) for n in shape), dtype)
        self._folder = folder
        row_bytes = max(1, math.prod(shape[1:]) * numpy_dtype(dtype).itemsize)
        self.chunk_rows = max(1, min(CHUNK_BYTES // row_bytes, max(1, shape[0])))
        most = max(1, SHARD_BYTES // (self.chunk_rows * row_bytes))
        self.chunks_per_shard = max(1, min(most, -(-shape[0] // self.chunk_rows)))
        self._row_bytes = row_bytes
        self._shard: AtomicFile | None = None
        folder.mkdir()
        (folder / "zarr.json").write_text(json.dumps(self._metadata(), indent=2))

    @property
    def shard_rows(self) -> int:
        return self.chunk_rows * self.chunks_per_shard

    def append(self, rows: NDArray[Any]) -> None:
        block = self.checked(rows)
        while len(block) and block.size:
            room = self.shard_rows - self.rows_done % self.shard_rows
            piece, block = block[:room], block[room:]
            self._current().append(piece.reshape(-1).view(np.uint8).data)
            self.rows_done += len(piece)
            if self.rows_done % self.shard_rows == 0:
                self._end_shard()
        self.rows_done += len(block)  # rows of no width

    def finish(self) -> None:
        self.check_complete()
        if self._shard is not None:
            self._end_shard()

    def discard(self) -> None:
        if self._shard is not None:
            self._shard.discard()
            self._shard = None

    def _current(self) -> AtomicFile:
        if self._shard is None:
            number = self.rows_done // self.shard_rows
            path = self._folder.joinpath("c", str(number), *["0"] * (len(self.shape) - 1))
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise storage_error(error, str(path)) from error
            self._shard = AtomicFile(path)
        return self._shard

    def _end_shard(self) -> None:
        assert self._shard is not None
        chunk_bytes = self.chunk_rows * self._row_bytes
        chunks = -(-self._shard.position // chunk_bytes)
        self._shard.append(bytes(chunks * chunk_bytes - self._shard.position))
        index = np.full((self.chunks_per_shard, 2), _EMPTY, "<u8")
        index[:chunks, 0] = np.arange(chunks, dtype=np.uint64) * np.uint64(chunk_bytes)
        index[:chunks, 1] = chunk_bytes
        raw = index.tobytes()
        self._shard.append(raw + crc32c(raw).to_bytes(4, "little"))
        self._shard.publish()
        self._shard = None

    def _metadata(self) -> dict[str, Any]:
        rest = [max(1, n) for n in self.shape[1:]]
        as_bytes: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
        index_codecs = [as_bytes, {"name": "crc32c"}]
        sharding = {
            "chunk_shape": [self.chunk_rows, *rest],
            "codecs": [{"name": "bytes"} if self.dtype == "uint8" else as_bytes],
            "index_codecs": index_codecs,
            "index_location": "end",
        }
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": numpy_dtype(self.dtype).name,
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": [self.shard_rows, *rest]},
            },
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0,
            "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
            "attributes": {"dtype": "bfloat16"} if self.dtype == "bfloat16" else {},
            "storage_transformers": [],
        }


class ZarrWriter:
    """A group; its folder gets its name when it is complete."""

    def __init__(self, uri: str) -> None:
        self._output = FolderOutput(uri)
        self._array: ZarrArrayWriter | None = None
        try:
            group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
            (self._output.path / "zarr.json").write_text(json.dumps(group, indent=2))
        except OSError as error:
            raise self._failed(error) from error

    @property
    def target(self) -> Path:
        return self._output.target

    def array(self, name: str, shape: tuple[int, ...], dtype: DType) -> ZarrArrayWriter:
        self._finish_array()
        if not name or name.startswith((".", "__")) or "/" in name or "\\" in name:
            raise ConfigError(f"{self.target}: {name!r} is not a valid name of a zarr array.")
        try:
            self._array = ZarrArrayWriter(self._output.path / name, name, shape, dtype)
        except FileExistsError:
            raise ValueError(f"the array {name!r} was already written") from None
        except OSError as error:
            raise self._failed(error) from error
        return self._array

    def commit(self) -> None:
        self._finish_array()
        try:
            self._output.publish()
        except StorageError:
            self.abort()
            raise

    def abort(self) -> None:
        if self._array is not None:
            self._array.discard()
        self._output.discard()

    def _finish_array(self) -> None:
        if self._array is not None:
            self._array.finish()
            self._array = None

    def _failed(self, error: OSError) -> Exception:
        self.abort()
        return storage_error(error, str(self.target))
