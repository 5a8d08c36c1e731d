"""The rows of an array in shards: one map over all of them, or single shards while some are missing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from ttf import DataChanged, DType, Fetching, checked_ids, numpy_dtype
from ttf_storage._mapped import FileIdentity, MappedFile, check_identity, unreadable
from ttf_storage._objects_manifest import ArrayEntry, ShardEntry
from ttf_storage._objects_shards import Place
from ttf_storage._stored_rows import StoredRows, as_bytes
from ttf_storage._zarr_files import ChunkFile
from ttf_storage._zarr_region import Region
from ttf_storage._zarr_rows import MappedChunks

_OPEN_SHARDS: Final = 16  # Mapped one by one, while others are missing.
_AHEAD: Final = 4  # Shards that are fetched at a time where rows are read in order.


class ObjectRows(StoredRows):
    """Rows of missing shards are fetched when they are read; `fetch` brings all first."""

    mappable = True
    aligned = True
    fingerprint_is_whole = True

    def __init__(
        self, uri: str, entry: ArrayEntry, place: Place, how: Callable[[], Fetching]
    ) -> None:
        super().__init__(entry.name, uri, entry.shape, cast("DType", entry.dtype))
        self._entry = entry
        self._place = place
        self._how = how
        self._itemsize = numpy_dtype(self.dtype).itemsize
        self._here: set[int] = set()
        self._files: dict[int, ChunkFile] = {}
        self._open: dict[int, MappedFile] = {}
        self._whole: Region | MappedChunks | None = None
        self._lock = threading.RLock()
        self._read_up_to = 0

    # --- where the shards are ---------------------------------------------------------------------

    @property
    def near_rows(self) -> int:
        """Rows of the first shard; all, if all are here."""
        return self.shape[0] if self.missing_bytes == 0 else self._entry.shard_rows

    @property
    def missing_bytes(self) -> int:
        entries = {entry.sha256: entry for entry in self._place.missing(self._entry.shards)}
        return sum(entry.bytes for entry in entries.values())

    def fetch(self) -> None:
        with self._lock:
            self._bring(range(len(self._entry.shards)))
            self._map_whole()

    def _bring(self, numbers: Sequence[int]) -> None:
        new = [number for number in numbers if number not in self._here]
        if new:
            self._place.bring([self._entry.shards[n] for n in new], self._how())
            for number in new:
                self._files[number] = _chunk_file(self._place, self._entry.shards[number])
            self._here.update(new)

    def _map_whole(self) -> Region | MappedChunks | None:
        """One map, once every shard is here."""
        if self._whole is None and len(self._here) == len(self._entry.shards):
            files = [self._files[number] for number in range(len(self._files))]
            width, rows = max(1, self._entry.row_bytes), self._entry.shard_rows
            self._whole = Region.over(files, width, rows) or MappedChunks(files, width, rows, rows)
            self._open.clear()
        return self._whole

    # --- rows -------------------------------------------------------------------------------------

    def will_need(self, ids: NDArray[np.int64]) -> None:
        if self._whole is not None and 0 not in self.shape:
            self._whole.will_need(checked_ids(ids, self.shape[0], self.name))

    @property
    def on_disk(self) -> bool:
        return self._whole is not None and self._whole.on_disk

    def _digest(self) -> str:
        return self._entry.fingerprint()

    def _take(self, rows: NDArray[np.int64], into: NDArray[Any]) -> None:
        if self._whole is None:
            with self._lock:
                self._bring(np.unique(rows // self._entry.shard_rows).tolist())
                whole = self._map_whole()
                if whole is None:
                    self._take_from_single(rows, as_bytes(into))
                    return
        assert self._whole is not None
        self._whole.take(rows, as_bytes(into))

    def _copy(self, start: int, stop: int, into: NDArray[Any]) -> None:
        if self._whole is None:
            with self._lock:
                self._bring_around(start, stop)
        self._take(np.arange(start, stop), into)

    def _view(self, start: int, stop: int) -> NDArray[Any] | None:
        if stop == start or 0 in self.shape:
            return None
        if self._whole is None:
            with self._lock:
                self._bring_around(start, stop)
                self._map_whole()
        view = None
        if self._whole is not None:
            view = self._whole.contiguous(start, stop, self._itemsize)
        if view is None:
            return None
        return view.view(numpy_dtype(self.dtype)).reshape(-1, *self.shape[1:])

    def _bring_around(self, start: int, stop: int) -> None:
        """The shards of these rows; of somebody who reads on and on also the next ones."""
        per, count = self._entry.shard_rows, len(self._entry.shards)
        first, last = start // per, (stop - 1) // per
        if start == self._read_up_to and start:
            last = min(max(last, first + _AHEAD - 1), count - 1)
        self._read_up_to = stop
        self._bring(range(first, last + 1))

    def _take_from_single(self, rows: NDArray[np.int64], into: NDArray[np.uint8]) -> None:
        shard = rows // self._entry.shard_rows
        for number in np.unique(shard).tolist():
            here = np.flatnonzero(shard == number)
            entry = self._entry.shards[number]
            shape = entry.rows, self._entry.row_bytes
            matrix = self._single(number).view(0, shape, np.uint8)
            into[here] = matrix[rows[here] - number * self._entry.shard_rows]

    def _single(self, number: int) -> MappedFile:
        if number not in self._open:
            while len(self._open) >= _OPEN_SHARDS:
                self._open.pop(next(iter(self._open)))  # unmapped with the last view on it
            file = self._files[number]
            mapped = MappedFile(file.path)
            if mapped.identity != file.identity:
                check_identity(file.path, file.identity)
                raise DataChanged(f"{file.path} changed while it was in use.")
            self._open[number] = mapped
        return self._open[number]

    # --- the store's ------------------------------------------------------------------------------

    def check_unchanged(self) -> None:
        for file in list(self._files.values()):
            check_identity(file.path, file.identity)

    def close(self) -> None:
        self._open.clear()
        if self._whole is not None:
            self._whole.close()


def _chunk_file(place: Place, entry: ShardEntry) -> ChunkFile:
    path = place.path(entry)
    try:
        return ChunkFile(path, FileIdentity.of(path), np.zeros(1, np.int64))
    except OSError as error:
        raise unreadable(path, error) from error
