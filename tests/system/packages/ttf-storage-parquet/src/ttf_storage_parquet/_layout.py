"""How an array lies in a column: its Arrow type, its metadata, its digest."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from ttf import BadData, DType

DIGEST: Final = b"ttf.digest"
"""In the file's metadata: of the one array the file holds, by whoever wrote it."""
MARKER: Final = b"ttf.dtype"
"""In a field's metadata: 'bfloat16' where uint16 stands for it."""

_STORED: Final[dict[str, DType]] = {
    "float": "float32",
    "halffloat": "float16",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
}


def field_of(name: str, tail: tuple[int, ...], dtype: DType) -> pa.Field:
    """A column of rows of shape `tail`: numbers, in lists of fixed size, nested."""
    kind = pa.from_numpy_dtype("uint16" if dtype == "bfloat16" else dtype)
    for extent in reversed(tail):
        kind = pa.list_(pa.field("element", kind, nullable=False), extent)
    metadata = {MARKER: b"bfloat16"} if dtype == "bfloat16" else None
    return pa.field(name, kind, nullable=False, metadata=metadata)


def declared(field: pa.Field, where: str) -> tuple[tuple[int, ...], DType]:
    """The shape of a row and the type of its numbers; BadData where they are none."""
    tail, kind = [], field.type
    while pa.types.is_fixed_size_list(kind):
        tail.append(kind.list_size)
        kind = kind.value_type
    if str(kind) == "uint16" and (field.metadata or {}).get(MARKER) == b"bfloat16":
        return tuple(tail), "bfloat16"
    dtype = _STORED.get(str(kind))
    if dtype is None:
        raise BadData(
            f"{where} is a column of {field.type}, not of numbers or lists of fixed size.",
            hint="Write it anew: pyarrow.list_(pyarrow.float32(), WIDTH) for vectors.",
        )
    return tuple(tail), dtype


def to_arrow(rows: NDArray[Any], field: pa.Field) -> pa.Array:
    """Contiguous rows as a column, without a copy."""
    kinds, kind = [], field.type
    while pa.types.is_fixed_size_list(kind):
        kinds.append(kind)
        kind = kind.value_type
    column = pa.array(rows.reshape(-1), type=kind)
    for outer in reversed(kinds):
        column = pa.FixedSizeListArray.from_arrays(column, type=outer)
    return column


def to_numpy(column: pa.Array, tail: tuple[int, ...], where: str) -> NDArray[Any]:
    """A column as rows, without a copy; BadData where some are null."""
    values, nulls = column, column.null_count
    while pa.types.is_fixed_size_list(values.type):
        values = values.flatten()
        nulls += values.null_count
    if nulls:
        raise BadData(f"{where} has rows without a value (null).", hint="Leave them out.")
    rows: NDArray[Any] = values.to_numpy(zero_copy_only=True).reshape(-1, *tail)
    return rows


def new_digest(tail: tuple[int, ...], dtype: DType) -> hashlib.blake2b:
    """To be fed the rows' bytes, front to back."""
    return hashlib.blake2b(repr((tail, dtype)).encode(), digest_size=16)


def as_bytes(rows: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
