"""The chunk and shard files of a local zarr array: checks them and finds each chunk."""

from __future__ import annotations

import functools
import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ttf import BadData, open_inside, refuse_foreign
from ttf_storage._mapped import FileIdentity, unreadable
from ttf_storage._zarr_codecs import MOST_TEXT_BYTES, check_codecs
from ttf_storage._zarr_meta import TEXT, ArrayMeta
from ttf_storage._zarr_missing import Missing, chunks_per_file, missing_in, needed_chunks


@dataclass(frozen=True)
class ChunkFile:
    """A file when the array was opened, with the `offsets` of its chunks in grid order."""

    path: Path
    identity: FileIdentity
    offsets: NDArray[np.int64]  # -1 for chunks that do not exist or are beyond the array's end


def chunk_files(folder: Path, meta: ArrayMeta, missing: Missing, where: str) -> list[ChunkFile]:
    """Returns every file of the array that exists, and adds what does not to `missing`. Raises
    BadData with the first damaged chunk, and if the folder leads out of the store."""
    check_codecs(meta.codecs, chunk_bytes(meta), where)
    refuse_foreign(folder.parent, [], [folder.name])
    found = [
        _chunk_file(folder / key, key, position, meta, missing, where)
        for position, key in meta.file_keys()
    ]
    return [file for file in found if file is not None]


def _chunk_file(
    path: Path,
    key: str,
    position: tuple[int, ...],
    meta: ArrayMeta,
    missing: Missing,
    where: str,
) -> ChunkFile | None:
    try:
        identity = FileIdentity.of(path)
        if meta.index is None:
            if meta.plain and identity.size != chunk_bytes(meta):
                raise BadData(
                    f"{where}: the chunk {key} is truncated or damaged: it has {identity.size} "
                    f"bytes instead of {chunk_bytes(meta)}.",
                    hint="Write or copy the store again.",
                )
            return ChunkFile(path, identity, np.zeros(1, np.int64))
        table = _read_index(path, identity.size, meta, f"{where}: the shard {key}")
    except (FileNotFoundError, NotADirectoryError):
        missing.add_file(key, position)
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    missing.add_chunks(key, position, table)
    return ChunkFile(path, identity, _offsets(table, identity.size, key, position, meta, where))


def chunk_bytes(meta: ArrayMeta) -> int:
    """Returns the uncompressed size of one chunk, of strings of any length the most."""
    if meta.dtype == TEXT:
        return MOST_TEXT_BYTES
    try:
        itemsize = 2 if meta.marker == "bfloat16" else np.dtype(meta.dtype).itemsize
    except (TypeError, ValueError):
        raise BadData(f"Arrays of the type {meta.dtype[:80]!r} are not read by ttf.") from None
    return math.prod(meta.chunks) * itemsize


def _read_index(path: Path, size: int, meta: ArrayMeta, where: str) -> NDArray[np.uint64]:
    """Returns (offset, length) of every chunk of a shard, after a check of the checksum."""
    assert meta.index is not None
    length = index_bytes(meta)
    if size < length:
        raise BadData(
            f"{where} is truncated: it has {size} bytes, but its index alone needs {length}.",
            hint="Write or copy the store again.",
        )
    with open_inside(path, path.parent) as file:
        file.seek(size - length if meta.index.at_end else 0)
        raw = file.read(length)
    if meta.index.checksum and crc32c(raw[:-4]) != int.from_bytes(raw[-4:], "little"):
        raise BadData(
            f"{where} is truncated or damaged: the checksum of its index is wrong.",
            hint="Write or copy the store again.",
        )
    return index_table(raw, meta)


def _offsets(
    table: NDArray[np.uint64],
    size: int,
    key: str,
    position: tuple[int, ...],
    meta: ArrayMeta,
    where: str,
) -> NDArray[np.int64]:
    needed = needed_chunks(position, meta) & ~missing_in(table)
    starts, lengths = table[:, 0], table[:, 1]
    wrong = needed & ((starts > size) | (lengths > size - np.minimum(starts, np.uint64(size))))
    if meta.plain:
        wrong |= needed & (lengths != chunk_bytes(meta))
    if wrong.any():
        raise BadData(
            f"{where}: chunk {int(np.flatnonzero(wrong)[0])} of the shard {key} is truncated or "
            f"damaged: according to the index, it lies outside the file of {size} bytes.",
            hint="Write or copy the store again.",
        )
    return np.where(needed, starts, np.uint64(0)).astype(np.int64) - (~needed)


def index_bytes(meta: ArrayMeta) -> int:
    """Returns the size of a shard's index."""
    assert meta.index is not None
    return 16 * math.prod(chunks_per_file(meta)) + (4 if meta.index.checksum else 0)


def index_table(raw: bytes | memoryview, meta: ArrayMeta) -> NDArray[np.uint64]:
    """Returns (offset, length) of every chunk of a shard, from the bytes of its index."""
    assert meta.index is not None
    count = math.prod(chunks_per_file(meta))
    table = np.frombuffer(raw, f"{meta.index.order}u8", count=2 * count).reshape(count, 2)
    return table.astype(np.uint64)


def crc32c(data: bytes) -> int:
    """The checksum of a few kilobytes to megabytes.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    if importlib.util.find_spec("google_crc32c") is not None:
        import google_crc32c

        return int(google_crc32c.value(data))
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@functools.cache
def _table() -> tuple[int, ...]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)
