"""Frames and columns of pandas, Polars and Arrow as numpy arrays; none of them is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttf.errors import BadData


def columns_of(value: Any) -> Mapping[str, Any] | None:
    """The columns of a frame by name, without those of texts; None for what is no frame, and for a
    frame of plain numbers, which is a matrix."""
    library = _library(value)
    if library == "pandas" and hasattr(value, "columns"):
        found = {str(name): value[name] for name in value.columns}
    elif library == "polars" and hasattr(value, "get_columns"):
        found = {column.name: column for column in value.get_columns()}
    elif library == "pyarrow" and hasattr(value, "column_names"):
        found = {name: value.column(name) for name in value.column_names}
    else:
        return None
    if found and all(_holds_numbers(column) for column in found.values()):
        matrix = not any(name in ("vectors", "ids") or "_" in name for name in found)
        if matrix:
            return None
    return {name: c for name, c in found.items() if name == "ids" or not _holds_text(c)}


def plain(value: Any, where: str) -> Any:
    """A column as a numpy array, of numbers if its lists have one length, else of objects. What is no
    column stays as it is. Raises BadData for missing values."""
    library = _library(value)
    if library == "pyarrow":
        return _of_arrow(value, where)
    if library == "polars" and hasattr(value, "is_null"):  # a column, no frame
        if value.null_count():
            _refuse(int(np.flatnonzero(value.is_null().to_numpy())[0]), where)
        return value.to_numpy()
    if library == "pandas" and getattr(value, "ndim", 0) == 1:
        missing = value.isna().to_numpy()
        if missing.any() and not _holds_numbers(value):
            _refuse(int(np.flatnonzero(missing)[0]), where)
        return value.to_numpy()
    return value


def stacked(rows: NDArray[Any], where: str) -> NDArray[Any]:
    """An array of objects that are rows of one shape. Raises BadData that names another row."""
    first = np.asarray(rows[0])
    shape = first.shape
    for number, row in enumerate(rows):
        found = np.asarray(row)
        if found.shape != shape or found.dtype.kind not in "fiub":
            raise BadData(
                f"{where}: row {number} has the shape {found.shape} and the type {found.dtype}, but "
                f"row 0 has the shape {shape}.",
                hint="Every row must be a vector of the same length. Leave other rows out.",
            )
    found = np.empty((len(rows), *shape), np.result_type(first.dtype, np.asarray(rows[-1]).dtype))
    for number, row in enumerate(rows):
        found[number] = row
    return found


def _of_arrow(value: Any, where: str) -> Any:
    column = value.combine_chunks() if hasattr(value, "combine_chunks") else value
    if hasattr(column, "chunks"):  # of no rows, or too long for one array
        return np.concatenate([_of_arrow(chunk, where) for chunk in column.chunks])
    column = getattr(column, "storage", column)
    if column.null_count:
        _refuse(int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]), where)
    widths: list[int] = []
    values = column
    while hasattr(values, "flatten") and hasattr(values.type, "value_type"):
        width = getattr(values.type, "list_size", None)
        if width is None and len(values):
            lengths = np.diff(values.offsets.to_numpy(zero_copy_only=False))
            if (lengths != lengths[0]).any():
                return column.to_numpy(zero_copy_only=False)  # rows of different lengths
            width = int(lengths[0])
        if width is None:
            break
        widths.append(width)
        values = values.flatten()
        if values.null_count:
            at = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
            _refuse(at // max(1, int(np.prod(widths))), where)
    flat = values.to_numpy(zero_copy_only=False)
    shape = getattr(value.type, "shape", None)  # of a tensor
    return flat.reshape(len(column), *(shape or widths))


def _refuse(row: int, where: str) -> None:
    raise BadData(
        f"{where}: row {row} is missing (null).", hint="Leave such rows out, or fill them."
    )


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _holds_numbers(column: Any) -> bool:
    kind = str(getattr(column, "dtype", getattr(column, "type", ""))).lower()
    return kind.startswith(("float", "int", "uint", "bool", "double", "halffloat"))


def _holds_text(column: Any) -> bool:
    kind = str(getattr(column, "dtype", getattr(column, "type", ""))).lower()
    if kind.startswith(("str", "large_string", "string", "category", "categorical", "dictionary")):
        return True
    first = column.iloc[0] if kind == "object" and len(column) else None
    return isinstance(first, str)
