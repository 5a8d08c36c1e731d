"""The manifest of a folder of shards: which arrays there are, and the hash of every shard."""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

import numpy as np

from ttf import BadData, DType, numpy_dtype
from ttf_storage._npy_header import beyond
from ttf_storage._npz_writer import npy_header

FORMAT: Final = "ttf-objects/1"
MOST_BYTES: Final = 8 << 20  # 40,000 shards, which are 5 TB
NUMBERS: Final = ("float32", "float16", "bfloat16", "int32", "int64", "uint8")
_TEXT: Final = re.compile(r"<U[1-9]\d{0,5}")
_FILE: Final = re.compile(r"[0-9A-Za-z][\w.-]{0,200}", re.ASCII)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_MOST_DIMENSIONS: Final = 8


@dataclass(frozen=True, kw_only=True)
class ShardEntry:
    """One file: whole rows, one after another, and nothing else."""

    file: str
    rows: int
    bytes: int
    sha256: str
    crc32: int
    """Of the array as a .npy file, from its header to the end of this shard."""


@dataclass(frozen=True, kw_only=True)
class ArrayEntry:
    name: str
    shape: tuple[int, ...]
    dtype: str
    """Of a vector or a number as in `ttf.DType`; of strings as numpy names it: <U12."""
    shards: tuple[ShardEntry, ...]

    @property
    def is_text(self) -> bool:
        return self.dtype not in NUMBERS

    @property
    def held(self) -> np.dtype[Any]:
        return np.dtype(self.dtype) if self.is_text else numpy_dtype(cast("DType", self.dtype))

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.held.itemsize

    @property
    def shard_rows(self) -> int:
        """Of every shard but the last one."""
        return self.shards[0].rows if self.shards else 1

    @property
    def num_bytes(self) -> int:
        return self.shape[0] * self.row_bytes

    def crc_before(self, number: int) -> int:
        """The checksum up to the shard `number`: what the shard's own continues."""
        return self.shards[number - 1].crc32 if number else zlib.crc32(self._header)

    def fingerprint(self) -> str:
        """Equal to that of an .npz file with this array: both have the same checksum."""
        size = len(self._header) + self.num_bytes
        known = [self.dtype, self.shape, size, self.crc_before(len(self.shards))]
        return hashlib.blake2b(repr(known).encode(), digest_size=16).hexdigest()

    @property
    def _header(self) -> bytes:
        return npy_header(self.shape, self.held)


def written(arrays: Sequence[ArrayEntry]) -> bytes:
    """The manifest as a file."""
    about = {}
    for array in arrays:
        fields = asdict(array)
        about[fields.pop("name")] = fields
    return json.dumps({"format": FORMAT, "arrays": about}, indent=1).encode() + b"\n"


def parsed(data: bytes, where: str) -> dict[str, ArrayEntry]:
    """Raises BadData with the reason: whoever wrote the manifest is not trusted."""
    if len(data) > MOST_BYTES:
        raise _damaged(where, f"it has more than {MOST_BYTES:,} bytes")
    try:
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise BadData(
                f"{where} has the format {str(document['format'])[:60]!r}, but this ttf reads "
                f"{FORMAT!r}.",
                hint="Install a newer version of ttf.",
            )
        return {str(name): _array(str(name), about) for name, about in document["arrays"].items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(where, str(error)[:200] or type(error).__name__) from error


def content_sha256(arrays: Mapping[str, ArrayEntry]) -> str:
    """Of the content of all arrays, wherever its shards are."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(repr((name, array.dtype, array.shape)).encode())
        for shard in array.shards:
            digest.update(shard.sha256.encode())
    return digest.hexdigest()


def _array(name: str, about: Mapping[str, Any]) -> ArrayEntry:
    dtype, shape = str(about["dtype"]), tuple(about["shape"])
    if dtype not in NUMBERS and not _TEXT.fullmatch(dtype):
        raise ValueError(f"the array {name!r} has the type {dtype[:60]!r}")
    if not 0 < len(shape) <= _MOST_DIMENSIONS or not all(_is_count(n) for n in shape):
        raise ValueError(f"the array {name!r} has the shape {str(shape)[:60]}")
    if beyond(shape, 8) or (dtype not in NUMBERS and len(shape) != 1):
        raise ValueError(f"the array {name!r} has the impossible shape {str(shape)[:60]}")
    array = ArrayEntry(
        name=name, shape=shape, dtype=dtype, shards=tuple(map(_shard, about["shards"]))
    )
    for reason in _misfits(array):
        raise ValueError(f"the array {name!r}: {reason}")
    return array


def _shard(about: Mapping[str, Any]) -> ShardEntry:
    shard = ShardEntry(**{field: about[field] for field in ShardEntry.__annotations__})
    if not _FILE.fullmatch(str(shard.file)):
        raise ValueError(f"{str(shard.file)[:80]!r} is no name of a shard")
    if not _SHA256.fullmatch(str(shard.sha256)):
        raise ValueError(f"the shard {shard.file} has no SHA-256")
    if not all(map(_is_count, (shard.rows, shard.bytes, shard.crc32))):
        raise ValueError(f"the shard {shard.file} has a number that is no count")
    return shard


def _misfits(array: ArrayEntry) -> Iterator[str]:
    for number, shard in enumerate(array.shards):
        last = number == len(array.shards) - 1
        if not 0 < shard.rows <= array.shard_rows or (shard.rows < array.shard_rows and not last):
            yield f"the shard {shard.file} has {shard.rows} rows"
        if shard.bytes != shard.rows * array.row_bytes:
            yield f"the shard {shard.file} has {shard.bytes} bytes, which are no {shard.rows} rows"
    if sum(shard.rows for shard in array.shards) != array.shape[0]:
        yield f"its shards do not have {array.shape[0]} rows"


def _is_count(number: object) -> bool:
    return type(number) is int and 0 <= number < 1 << 62


def _damaged(where: str, why: str) -> BadData:
    return BadData(
        f"{where} is damaged, or no manifest of ttf: {why}.",
        hint="ttf data convert IN OUT.objects writes such a folder.",
    )
