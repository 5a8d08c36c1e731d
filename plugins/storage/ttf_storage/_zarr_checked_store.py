"""What the zarr library reads of a store, checked on its way: where it lies, how large it is, and
what its chunks become.

The library asks this store for everything. Files of a local folder are opened inside that folder,
members of a zip file with a limit; of a remote store the chunks are checked before they are decoded.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore, ObjectStore, WrapperStore, ZipStore

from ttf import BadData, PluginUnavailable, open_inside
from ttf_storage._objects_remote import opened, split_address
from ttf_storage._zarr_archive import Archive
from ttf_storage._zarr_codecs import check_chunk, check_text_chunk
from ttf_storage._zarr_files import chunk_bytes, index_bytes, index_table
from ttf_storage._zarr_meta import MOST_METADATA_BYTES, TEXT, ArrayMeta, with_fill_value
from ttf_storage._zarr_missing import Missing, missing_in
from ttf_storage.objects_store import INSTALL, SCHEMES

_METADATA: Final = frozenset({"zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"})
_MOST_SHARD_BYTES: Final = 1 << 29
_SLACK_BYTES: Final = 64 << 10
_LONGEST_WAIT_S: Final = 5.0
_RETRIES: Final = 6

# The size of a key and its bytes; raises KeyError or FileNotFoundError if there is none.
Opener = Callable[[str], tuple[int, IO[bytes]]]


class CheckedStore(WrapperStore[Store]):  # type: ignore[misc]  # zarr is not looked into
    """Read-only. `of` says which array its chunks belong to, before the first is read."""

    def __init__(
        self, store: Store, opened: Opener | None = None, archive: Archive | None = None
    ) -> None:
        super().__init__(store)
        self.archive = archive
        self.lists = True
        self.root = "" if archive is None else archive.root
        self._opened = opened
        self._meta: ArrayMeta | None = None
        self._where = ""
        self._prefix = ""
        self._missing: Missing | None = None

    def of(self, meta: ArrayMeta, where: str, prefix: str, missing: Missing | None) -> None:
        """`prefix`: of the array's keys. `missing`: refuses a chunk that does not exist; None: zarr
        reads the fill value."""
        self._meta, self._where, self._prefix, self._missing = meta, where, prefix, missing

    def close(self) -> None:
        # zarr reads many chunks at once and leaves at the first error. What the other reads still do
        # would be told at the end of Python: "Task was destroyed but it is pending!".
        with contextlib.suppress(
            RuntimeError
        ):  # at the end of Python its loop is closed: all ended
            sync(_others_end())
        super().close()
        if self.archive is not None:
            self.archive.close()

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        if self._opened is None:
            found = await super().get(key, prototype, byte_range)
        else:
            data = await asyncio.to_thread(self._read, key, byte_range)
            found = None if data is None else prototype.buffer.from_bytes(data)
        if _is_metadata(key):
            if found is not None and key.endswith("zarr.json"):
                found = prototype.buffer.from_bytes(with_fill_value(found.to_bytes()))
        elif self._meta is not None:
            if found is not None:
                self._check(key, byte_range, memoryview(found.as_numpy_array()))
            elif self._missing is not None:
                self._missing.add_file(*self._place(key))
                self._missing.refuse()
        return found

    def look_into_archive(self, missing: Missing) -> None:
        """Adds the chunks of the array that the zip file does not have."""
        meta = self._meta
        assert meta is not None and self.archive is not None
        span = None
        if meta.index is not None:
            length = index_bytes(meta)
            span = SuffixByteRequest(length) if meta.index.at_end else RangeByteRequest(0, length)
        for position, key in meta.file_keys():
            there = self.archive.has(self._prefix + key)
            if not there:
                missing.add_file(key, position)
            elif span is not None and (raw := self._read(self._prefix + key, span)) is not None:
                missing.add_chunks(key, position, index_table(raw, meta))

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
        index = _index_in(data, span, meta)
        if index is None:
            self._check_chunk(key, data)
            return
        table = index_table(index, meta)
        if self._missing is not None:
            self._missing.add_chunks(*self._place(key), table)
            self._missing.refuse()
        if span is None:
            for start, size in table[~missing_in(table)].tolist():
                self._check_chunk(key, data[start : start + size])

    def _check_chunk(self, key: str, data: memoryview) -> None:
        meta, where = self._meta, f"{self._where}: the chunk {key}"
        assert meta is not None
        if meta.dtype == TEXT:
            check_text_chunk(data, meta.codecs, math.prod(meta.chunks), where)
        else:
            check_chunk(data, meta.codecs, chunk_bytes(meta), where)

    def _place(self, key: str) -> tuple[str, tuple[int, ...]]:
        assert self._meta is not None
        inside = key.removeprefix(self._prefix)
        return inside, self._meta.position_of(inside)


def checked_store(uri: str) -> CheckedStore:
    """Of a local folder, a local zip file or a URL."""
    path = Path(uri)
    if "://" in uri:
        inner = _remote(uri)
        store = CheckedStore(inner)
        # HTTP has no lists. fsspec makes one of the links in a page; obstore asks for WebDAV.
        store.lists = not (isinstance(inner, ObjectStore) and uri.startswith("http"))
        return store
    if path.is_dir():
        return CheckedStore(LocalStore(path, read_only=True), functools.partial(_in_folder, path))
    archive = Archive(path)
    inner = ZipStore(path, mode="r", read_only=True)
    return CheckedStore(inner, archive.open, archive)


def _remote(uri: str) -> Store:
    """fsspec reads the configuration files of each service, so it comes first; else obstore."""
    import fsspec

    scheme = uri.partition("://")[0].lower()
    try:
        fsspec.get_filesystem_class(scheme)
    except (ImportError, ValueError) as error:
        if scheme not in SCHEMES:
            raise
        if importlib.util.find_spec("obstore") is None:
            raise PluginUnavailable(
                f"{uri} can be read only with obstore or with fsspec's library for {scheme}://, and "
                f"neither is installed ({error}).",
                hint=INSTALL,
            ) from None
        address, _ = split_address(uri)
        return ObjectStore(opened(address, retries=_RETRIES), read_only=True)
    return FsspecStore.from_url(uri, read_only=True)


def _in_folder(root: Path, key: str) -> tuple[int, IO[bytes]]:
    file = open_inside(root / key, root)
    return os.fstat(file.fileno()).st_size, file


def _index_in(data: memoryview, span: Any, meta: ArrayMeta) -> memoryview | None:
    """The index of a shard, if it is in these bytes; else they are one chunk."""
    if meta.index is None:
        return None
    length = index_bytes(meta)
    if span is None:
        return data[-length:] if meta.index.at_end else data[:length]
    chunk = isinstance(span, RangeByteRequest) and (meta.index.at_end or span.start >= length)
    return None if chunk else data


async def _others_end() -> None:
    """Waits for everything else that goes on in zarr's loop now."""
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=_LONGEST_WAIT_S)


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
