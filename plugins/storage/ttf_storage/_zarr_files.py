"""The chunk and shard files of a local zarr array: checks them and finds each chunk.

zarr reads a chunk that was never written as the fill value, even if its file was lost. For training
vectors a missing chunk is therefore an error here, never zeros.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ttf import BadData, open_inside, refuse_foreign
from ttf_storage._mapped import FileIdentity, unreadable
from ttf_storage._zarr_codecs import check_codecs
from ttf_storage._zarr_meta import MISSING, ArrayMeta

_REWRITE: Final = (
    "If it held only zeros, write it with zarr.config 'array.write_empty_chunks'; "
    "else copy or write the store again."
)


@dataclass(frozen=True)
class ChunkFile:
    """A file when the array was opened, with the `offsets` of its chunks in grid order."""

    path: Path
    identity: FileIdentity
    offsets: NDArray[np.int64]  # -1 for chunks completely beyond the end of the array


def chunk_files(folder: Path, meta: ArrayMeta, where: str) -> list[ChunkFile]:
    """Returns every file of the array. Raises BadData with the first missing or damaged chunk, and
    if the folder leads out of the store."""
    check_codecs(meta.codecs, chunk_bytes(meta), where)
    refuse_foreign(folder.parent, [], [folder.name])
    return [
        _chunk_file(folder / key, key, position, meta, where) for position, key in meta.file_keys()
    ]


def _chunk_file(
    path: Path, key: str, position: tuple[int, ...], meta: ArrayMeta, where: str
) -> ChunkFile:
    what = "shard" if meta.index else "chunk"
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
        raise BadData(
            f"{where}: the {what} {key} is missing ({_rows(position, meta)}).", hint=_REWRITE
        ) from None
    except OSError as error:
        raise unreadable(path, error) from error
    return ChunkFile(path, identity, _offsets(table, identity.size, key, position, meta, where))


def chunk_bytes(meta: ArrayMeta) -> int:
    """Returns the uncompressed size of one chunk."""
    itemsize = 2 if meta.marker == "bfloat16" else np.dtype(meta.dtype).itemsize
    return math.prod(meta.chunks) * itemsize


def _read_index(path: Path, size: int, meta: ArrayMeta, where: str) -> NDArray[np.uint64]:
    """Returns (offset, length) of every chunk of a shard, after a check of the checksum."""
    assert meta.index is not None
    count, length = math.prod(chunks_per_file(meta)), index_bytes(meta)
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
    return np.frombuffer(raw, "<u8", count=2 * count).reshape(count, 2)


def _offsets(
    table: NDArray[np.uint64],
    size: int,
    key: str,
    position: tuple[int, ...],
    meta: ArrayMeta,
    where: str,
) -> NDArray[np.int64]:
    needed = _needed(position, meta)
    missing = table[:, 0] == MISSING
    if (missing & needed).any():
        chunk = int(np.flatnonzero(missing & needed)[0])
        raise BadData(
            f"{where}: chunk {chunk} of the shard {key} is missing ({_rows(position, meta)}).",
            hint=_REWRITE,
        )
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


def _needed(position: tuple[int, ...], meta: ArrayMeta) -> NDArray[np.bool_]:
    """Returns which chunks of a shard overlap the array. The others need not exist."""
    per_file = chunks_per_file(meta)
    inside = np.ones((1,) * len(per_file), np.bool_)
    for axis, count in enumerate(per_file):
        first = position[axis] * meta.files[axis]
        starts = first + np.arange(count) * meta.chunks[axis]
        along = [1] * len(per_file)
        along[axis] = count
        inside = inside & (starts < meta.shape[axis]).reshape(along)
    return inside.reshape(-1)


def index_bytes(meta: ArrayMeta) -> int:
    """Returns the size of a shard's index."""
    assert meta.index is not None
    return 16 * math.prod(chunks_per_file(meta)) + (4 if meta.index.checksum else 0)


def chunks_per_file(meta: ArrayMeta) -> tuple[int, ...]:
    return tuple(f // c for f, c in zip(meta.files, meta.chunks, strict=True))


def _rows(position: tuple[int, ...], meta: ArrayMeta) -> str:
    start = position[0] * meta.files[0] if position else 0
    stop = min(start + meta.files[0], meta.shape[0]) if position else 0
    return f"rows {start} to {stop - 1}"


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
