"""How vectors lie in a column of Arrow: its type as shape and dtype, its values as numpy rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ttf import BadData, DType, numpy_dtype
from ttf_storage._stored_rows import READ_AS

MARKER: Final = b"ttf.dtype"
"""In the metadata of a field: b"bfloat16" if its uint16 numbers are the bits of bfloat16."""

_NAMES: Final = {"float": "float32", "double": "float64", "halffloat": "float16"}
_MOST_DEPTH: Final = 4
# In numpy's files uint16 may stand for bfloat16, and hashes of uint64 need a look at all of them.
_READ_AS: Final[dict[str, DType]] = {**READ_AS, "uint16": "int32", "uint64": "int64"}


@dataclass(frozen=True)
class Layout:
    """The type of a column. `tail`: the shape of a row; -1 for lists whose length the values tell."""

    tail: tuple[int, ...]
    dtype: DType
    held: str
    """The stored type, by numpy's name or as "bfloat16"."""

    @property
    def known(self) -> bool:
        return -1 not in self.tail


def is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return any(
        test(kind)
        for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


def layout_of(field: pa.Field, where: str) -> Layout:
    """Raises BadData for a column that holds no numbers."""
    kind, tail = field.type, []
    if isinstance(kind, pa.FixedShapeTensorType):
        if kind.permutation not in (None, list(range(len(kind.shape)))):
            raise BadData(f"{where} is a tensor whose axes are permuted.", hint="Write it anew.")
        tail, kind = list(kind.shape), kind.value_type
    while _is_list(kind) and len(tail) < _MOST_DEPTH:
        tail.append(kind.list_size if pa.types.is_fixed_size_list(kind) else -1)
        kind = kind.value_type
    held = _NAMES.get(str(kind), str(kind))
    if held == "uint16" and (field.metadata or {}).get(MARKER) == b"bfloat16":
        return Layout(tuple(tail), "bfloat16", "bfloat16")
    dtype = _READ_AS.get(held)
    if dtype is None or _is_list(kind):
        raise BadData(
            f"{where} is a column of the type {field.type}. An array is a column of numbers, or of "
            "lists of numbers that all have the same length.",
            hint="Choose another column, for example --set data.names.vectors=COLUMN.",
        )
    return Layout(tuple(tail), dtype, held)


def _is_list(kind: pa.DataType) -> bool:
    tests = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    return any(test(kind) for test in tests)


def leaves(schema: pa.Schema) -> dict[str, pa.Field]:
    """The columns by name; those of a struct as STRUCT.FIELD."""
    found: dict[str, pa.Field] = {}

    def add(field: pa.Field, prefix: str) -> None:
        name = prefix + field.name
        if pa.types.is_struct(field.type):
            for inner in field.type:
                add(inner, f"{name}.")
        else:
            found.setdefault(name, field)

    for field in schema:
        add(field, "")
    return found


def leaf_of(column: pa.Array, name: str, top: str) -> pa.Array:
    """The values of STRUCT.FIELD, given those of STRUCT. A missing struct is a missing value."""
    rest = name.removeprefix(top).removeprefix(".")
    while rest and pa.types.is_struct(column.type):
        index = next(
            i
            for i, field in enumerate(column.type)
            if rest == field.name or rest.startswith(f"{field.name}.")
        )
        rest = rest.removeprefix(column.type[index].name).removeprefix(".")
        fields = column.flatten()  # with the validity of the struct
        column = fields[index]
    return column


def rows_of(column: pa.Array, layout: Layout, first: int, where: str) -> NDArray[Any]:
    """The values as rows, read-only where no copy was needed. `first`: the number of the first one,
    for errors. Raises BadData for missing values and for lists of different lengths."""
    values = column.storage if isinstance(column, pa.ExtensionArray) else column
    per_row, count = 1, len(values)
    for width in layout.tail if not isinstance(column, pa.ExtensionArray) else (-2,):
        _refuse_nulls(values, first, per_row, where)
        if width == -2:  # a tensor: one list of all its numbers
            per_row, values = math.prod(layout.tail), values.flatten()
        elif pa.types.is_fixed_size_list(values.type):
            per_row, values = per_row * width, values.flatten()
        else:
            lengths = np.diff(values.offsets.to_numpy(zero_copy_only=True))
            wrong = np.flatnonzero(lengths != width)
            if len(wrong):
                raise BadData(
                    f"{where}: row {first + int(wrong[0]) // per_row} has a list of "
                    f"{int(lengths[wrong[0]])} values, but other rows have {width}.",
                    hint="All rows of a column must have the same length. Fill shorter lists up, or "
                    "leave these rows out.",
                )
            per_row, values = per_row * width, values.flatten()
    _refuse_nulls(values, first, per_row, where)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    if 0 in (count, per_row):
        return np.empty((count, *layout.tail), numpy_dtype(layout.dtype))
    flat = values.to_numpy(zero_copy_only=True)
    if flat.dtype == np.uint64 and (large := np.flatnonzero(flat > np.iinfo(np.int64).max)).size:
        raise BadData(
            f"{where}: row {first + int(large[0]) // per_row} has the number {flat[large[0]]}, which "
            "is too large for int64.",
            hint="If these are ids, such as hashes, write them as text.",
        )
    shaped = flat.reshape(count, *layout.tail)
    with np.errstate(over="ignore"):
        rows: NDArray[Any] = shaped.astype(numpy_dtype(layout.dtype), copy=False)
    return rows


def _refuse_nulls(values: pa.Array, first: int, per_row: int, where: str) -> None:
    if not values.null_count:
        return
    at = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
    what = "is missing (null)" if per_row == 1 else "has a number that is missing (null)"
    raise BadData(
        f"{where}: row {first + at // max(1, per_row)} {what}.",
        hint="Leave such rows out, or fill them.",
    )


def text_of(column: pa.Array, first: int, where: str, most: int) -> list[str]:
    """Raises BadData for missing values, and for strings of more than `most` characters."""
    _refuse_nulls(column, first, 1, where)
    # Of a dictionary, each row would become a copy of its long string.
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    longest = pc.max(pc.utf8_length(values.cast(pa.large_string()))).as_py() or 0
    if longest > most:
        raise BadData(
            f"{where}: a string has {longest:,} characters, which is too long for an id.",
            hint="ttf reads strings only as ids of documents.",
        )
    return [str(value) for value in column.to_pylist()]
