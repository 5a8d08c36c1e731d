"""What the zarr library reads of a store, checked on its way: where it lies, how large it is, and
what its chunks become.

The library asks this store for everything. Files of a local folder are opened inside that folder,
members of a zip file with a limit; of a remote store the chunks are checked before they are decoded.
"""

from __future__ import annotations

import asyncio
import functools
import math
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.storage import FsspecStore, LocalStore, WrapperStore, ZipStore

from ttf import BadData, open_inside, open_named
from ttf_storage._zarr_codecs import check_chunk
from ttf_storage._zarr_files import chunk_bytes, chunks_per_file, index_bytes
from ttf_storage._zarr_meta import MISSING, MOST_METADATA_BYTES, ArrayMeta

_METADATA: Final = frozenset({"zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"})
_MOST_SHARD_BYTES: Final = 1 << 29
_SLACK_BYTES: Final = 64 << 10

# The size of a key and its bytes; raises KeyError or FileNotFoundError if there is none.
Opener = Callable[[str], tuple[int, IO[bytes]]]


class CheckedStore(WrapperStore[Store]):  # type: ignore[misc]  # zarr is not looked into
    """Read-only. `of` says which array its chunks belong to, before the first is read."""

    def __init__(self, store: Store, opened: Opener | None = None) -> None:
        super().__init__(store)
        self._opened = opened
        self._meta: ArrayMeta | None = None
        self._where = ""

    def of(self, meta: ArrayMeta, where: str) -> None:
        self._meta, self._where = meta, where

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        if self._opened is None:
            found = await super().get(key, prototype, byte_range)
        else:
            data = await asyncio.to_thread(self._read, key, byte_range)
            found = None if data is None else prototype.buffer.from_bytes(data)
        if found is not None and self._meta is not None and not _is_metadata(key):
            self._check(key, byte_range, memoryview(found.as_numpy_array()))
        return found

    async def get_partial_values(self, prototype: Any, key_ranges: Any) -> list[Any]:
        return [await self.get(key, prototype, span) for key, span in key_ranges]

    def _read(self, key: str, span: Any) -> bytes | None:
        assert self._opened is not None
        most = self._most_bytes(key)
        try:
            size, opened = self._opened(key)
            with opened as file:
                start, stop = _from_to(span, size)
                if stop - start > most:
                    raise BadData(
                        f"{self._where or key}: {key} has {stop - start:,} bytes, but ttf reads "
                        f"at most {most:,} at a time.",
                        hint="Write the store again, with smaller chunks or shards.",
                    )
                file.seek(start)
                return file.read(stop - start)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, KeyError):
            return None

    def _most_bytes(self, key: str) -> int:
        meta = self._meta
        if meta is None or _is_metadata(key):
            return MOST_METADATA_BYTES
        if meta.index is not None:
            return _MOST_SHARD_BYTES
        # Data that cannot be compressed becomes a little larger.
        return chunk_bytes(meta) * 9 // 8 + _SLACK_BYTES

    def _check(self, key: str, span: Any, data: memoryview) -> None:
        meta = self._meta
        assert meta is not None
        where = f"{self._where}: the chunk {key}"
        if meta.index is None:
            check_chunk(data, meta.codecs, chunk_bytes(meta), where)
            return
        length = index_bytes(meta)
        if span is None:
            index = data[-length:] if meta.index.at_end else data[:length]
            table = np.frombuffer(index, "<u8", count=2 * math.prod(chunks_per_file(meta)))
            for start, size in table.reshape(-1, 2).tolist():
                if start != MISSING:
                    chunk = data[start : start + size]
                    check_chunk(chunk, meta.codecs, chunk_bytes(meta), where)
        elif isinstance(span, RangeByteRequest) and (meta.index.at_end or span.start >= length):
            check_chunk(data, meta.codecs, chunk_bytes(meta), where)


def checked_store(uri: str) -> CheckedStore:
    """Of a local folder, a local zip file or a URL."""
    path = Path(uri)
    if "://" in uri:
        return CheckedStore(FsspecStore.from_url(uri, read_only=True))
    if path.is_dir():
        return CheckedStore(LocalStore(path, read_only=True), functools.partial(_in_folder, path))
    open_named(path).close()  # refuses a pipe
    archive = zipfile.ZipFile(path)
    inner = ZipStore(path, mode="r", read_only=True)
    return CheckedStore(inner, functools.partial(_in_archive, archive))


def _in_folder(root: Path, key: str) -> tuple[int, IO[bytes]]:
    file = open_inside(root / key, root)
    return os.fstat(file.fileno()).st_size, file


def _in_archive(archive: zipfile.ZipFile, key: str) -> tuple[int, IO[bytes]]:
    # Never more than the size that the archive says, whatever is in it.
    member = archive.getinfo(key)
    return member.file_size, archive.open(member)


def _is_metadata(key: str) -> bool:
    return key.rpartition("/")[2] in _METADATA


def _from_to(span: Any, size: int) -> tuple[int, int]:
    if isinstance(span, RangeByteRequest):
        return min(span.start, size), min(span.end, size)
    if isinstance(span, OffsetByteRequest):
        return min(span.offset, size), size
    if isinstance(span, SuffixByteRequest):
        return max(0, size - span.suffix), size
    return 0, size
