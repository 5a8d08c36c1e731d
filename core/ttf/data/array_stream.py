"""Arrays read once from front to back: by rows where that is possible, else decompressed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ttf.data.vectors import FLOATS, from_float32, numpy_dtype, to_float32
from ttf.data.writing import block_rows
from ttf.errors import BadData

if TYPE_CHECKING:
    from ttf.contracts import DType, Store

_AS_STORED: Final[dict[str, DType]] = {
    "float64": "float32",
    "float32": "float32",
    "float16": "float16",
    "int8": "int32",
    "int16": "int32",
    "uint16": "int32",
    "int32": "int32",
    "uint32": "int64",
    "int64": "int64",
    "uint64": "int64",
    "uint8": "uint8",
    "bool": "uint8",
}


class RawStream(Protocol):
    """What a store gives of an array that it cannot read by rows."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def marker(self) -> str | None: ...
    @property
    def blocks(self) -> Iterator[NDArray[Any]]: ...


@runtime_checkable
class Streams(Protocol):
    """A store that can read compressed, big-endian or double-precision arrays front to back."""

    def stream(self, name: str, block_bytes: int = ...) -> RawStream: ...


@dataclass(frozen=True)
class Rows:
    """An array in one of the stored types, block by block; the blocks can be taken once."""

    shape: tuple[int, ...]
    dtype: DType
    blocks: Iterator[NDArray[Any]]


def stream_rows(store: Store, name: str) -> Rows:
    """Raises BadData, DataCompressed among it, where the store has no way to read the array."""
    try:
        source = store.source(name)
    except BadData:
        if not isinstance(store, Streams):
            raise
        return _widened(store, name)
    step = block_rows(source.shape, numpy_dtype(source.dtype).itemsize)
    spans = ((s, min(s + step, source.shape[0])) for s in range(0, source.shape[0], step))
    return Rows(source.shape, source.dtype, (source.read(a, b) for a, b in spans))


def as_float32(rows: Rows) -> Rows:
    """Whole numbers that are vectors all the same; floating point stays as it is."""
    if rows.dtype in FLOATS:
        return rows
    return Rows(rows.shape, "float32", (block.astype(np.float32) for block in rows.blocks))


def converted(rows: Rows, dtype: DType, where: str) -> Rows:
    """The same vectors in another type; BadData names a row that does not fit into it."""
    if dtype == rows.dtype or rows.dtype not in FLOATS:
        return rows

    def blocks() -> Iterator[NDArray[Any]]:
        start = 0
        for block in rows.blocks:
            wide = to_float32(block, rows.dtype)
            narrow = from_float32(wide, dtype)
            _check_range(wide, to_float32(narrow, dtype), start, dtype, where)
            start += len(block)
            yield narrow

    return Rows(rows.shape, dtype, blocks())


def _widened(store: Streams, name: str) -> Rows:
    raw = store.stream(name)
    if not raw.shape:
        raise BadData(f"The array {name!r} is a single value, not rows.")
    dtype = "bfloat16" if raw.marker == "bfloat16" else _AS_STORED.get(raw.dtype.name)
    if dtype is None:
        raise BadData(f"The array {name!r} holds {raw.dtype}, which cannot be converted.")
    target: DType = dtype

    def blocks() -> Iterator[NDArray[Any]]:
        start = 0
        for block in raw.blocks:
            with np.errstate(over="ignore"):
                fitted = block.astype(numpy_dtype(target), copy=False)
            if raw.dtype.name == "float64":
                _check_range(block, fitted, start, target, f"the array {name!r}")
            elif raw.dtype.name == "uint64" and (block > np.uint64(2**63 - 1)).any():
                raise BadData(f"The array {name!r} holds numbers beyond int64.")
            start += len(block)
            yield fitted

    return Rows(raw.shape, target, blocks())


def _check_range(
    before: NDArray[Any], after: NDArray[Any], start: int, dtype: DType, where: str
) -> None:
    lost = np.isfinite(before) & ~np.isfinite(after)
    if lost.any():
        row = start + int(np.flatnonzero(lost.reshape(len(lost), -1).any(axis=1))[0])
        raise BadData(
            f"{where}: row {row} holds values beyond the range of {dtype}.",
            hint="Use --dtype bf16, which has the range of float32, or scale the vectors.",
        )
