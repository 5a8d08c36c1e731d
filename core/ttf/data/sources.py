"""Sources of vectors other than a stored array: several stacked as one, or given in memory.

And `VectorRef`: a source described in JSON, so that another process can open it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType, Store, VectorSource
from ttf.data.vectors import (
    RowView,
    UnitRows,
    checked_ids,
    checked_out,
    checked_span,
    on_disk,
    to_float32,
    will_need,
)
from ttf.errors import BadData, DataMissing, storage_error
from ttf.host.plugins import open_store


class StackedRows:
    """Several sources of equal width as one, e.g. Y_train and Y_val as a bank."""

    def __init__(self, parts: Sequence[VectorSource]) -> None:
        self.parts = tuple(parts)
        self.name = "+".join(part.name for part in parts)
        self.uri = parts[0].uri
        self._starts = np.cumsum([0, *(part.shape[0] for part in parts)])
        self.shape = (int(self._starts[-1]), *parts[0].shape[1:])
        self.dtype: DType = parts[0].dtype

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        rows = checked_ids(ids, self.shape[0], self.name)
        into = checked_out(out, (len(rows), *self.shape[1:]), self.dtype, self.name)
        for part, here, within in self._by_part(rows):
            into[here] = part.gather(within)
        return into

    def will_need(self, ids: NDArray[np.int64]) -> None:
        for part, _, within in self._by_part(checked_ids(ids, self.shape[0], self.name)):
            will_need(part, within)

    def _by_part(
        self, rows: NDArray[np.int64]
    ) -> Iterator[tuple[VectorSource, NDArray[np.int64], NDArray[np.int64]]]:
        """For each part with some of these rows: their positions in `rows`, their numbers in the
        part."""
        owner = np.searchsorted(self._starts, rows, side="right") - 1
        for index, part in enumerate(self.parts):
            here = np.flatnonzero(owner == index)
            if here.size:
                yield part, here, rows[here] - self._starts[index]

    @property
    def on_disk(self) -> bool:
        return any(on_disk(part) for part in self.parts)

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        checked_span(start, stop, self.shape[0], self.name)
        into = checked_out(out, (stop - start, *self.shape[1:]), self.dtype, self.name)
        for first, part in zip(self._starts.tolist(), self.parts, strict=False):
            low, high = max(start, first), min(stop, first + part.shape[0])
            if low < high:
                into[low - start : high - start] = part.read(low - first, high - first)
        return into

    def owner_of(self, row: int) -> tuple[VectorSource, int]:
        """The part that holds a row, and the row's number in it."""
        part, _, within = next(self._by_part(np.array([row])))
        return part, int(within[0])

    def fingerprint(self) -> str:
        joined = "+".join(part.fingerprint() for part in self.parts)
        return hashlib.blake2b(joined.encode(), digest_size=16).hexdigest()


class WithColumn:
    """Another source of vectors as float32, with one more dimension: a value for each row."""

    def __init__(self, source: VectorSource, column: NDArray[np.float32]) -> None:
        rows, dim = source.shape
        if column.shape != (rows,):
            raise BadData(
                f"The calibration has {len(column):,} values, but {source.name} in {source.uri} "
                f"has {rows:,} rows."
            )
        self.source = source
        self.column = column
        self.name = source.name
        self.uri = source.uri
        self.shape: tuple[int, ...] = (rows, dim + 1)
        self.dtype: DType = "float32"

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        rows = checked_ids(ids, self.shape[0], self.name)
        return self._joined(self.source.gather(rows), self.column[rows], out)

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        return self._joined(self.source.read(start, stop), self.column[start:stop], out)

    def will_need(self, ids: NDArray[np.int64]) -> None:
        will_need(self.source, ids)

    @property
    def on_disk(self) -> bool:
        return on_disk(self.source)

    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.source.fingerprint().encode())
        digest.update(np.ascontiguousarray(self.column).data)
        return digest.hexdigest()[:16]

    def _joined(
        self, stored: NDArray[Any], values: NDArray[np.float32], out: NDArray[Any] | None
    ) -> NDArray[Any]:
        into = checked_out(out, (len(values), self.shape[1]), "float32", self.name)
        into[:, :-1] = to_float32(stored, self.source.dtype)
        into[:, -1] = values
        return into


class GivenRows:
    """An array (N, D) or (N, L, D) of finite numbers, as float32."""

    def __init__(self, array: NDArray[Any], name: str, lengths: NDArray[Any] | None = None) -> None:
        """`lengths`: of sequences; what lies after them may be anything."""
        if array.ndim not in (2, 3) or array.dtype.kind not in "fiu":
            raise BadData(
                f"The given {name} have the type {array.dtype} and the shape {array.shape}. They "
                "must be numbers with the shape (N, D) or (N, L, D).",
                hint=(
                    "Texts are encoded first, with the encoder of the data; ttf search --text does both."
                    if array.dtype.kind in "US"
                    else "For one vector x, use an array with one row: x[None]."
                ),
            )
        self._array = np.ascontiguousarray(array, dtype=np.float32)
        self.lengths = None if lengths is None else _checked(np.asarray(lengths), array.shape)
        finite = np.isfinite(self._array)
        if array.ndim == 3 and self.lengths is not None:
            finite |= (np.arange(array.shape[1]) >= self.lengths[:, None])[:, :, None]
        wrong = np.flatnonzero(~finite.all(axis=tuple(range(1, array.ndim))))
        if wrong.size:
            raise BadData(
                f"Row {wrong[0]} of the given {name} is not finite (NaN or infinite; "
                f"{wrong.size:,} of {len(array):,} rows)."
            )
        self.name = name
        self.uri = "the given array"
        self.shape: tuple[int, ...] = self._array.shape
        self.dtype: DType = "float32"

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        rows = checked_ids(ids, self.shape[0], self.name)
        into = checked_out(out, (len(rows), *self.shape[1:]), self.dtype, self.name)
        into[:] = self._array[rows]
        return into

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        checked_span(start, stop, self.shape[0], self.name)
        return self.gather(np.arange(start, stop), out)

    def fingerprint(self) -> str:
        return hashlib.sha256(self._array.data).hexdigest()[:16]


def _checked(lengths: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.int64]:
    longest = shape[1] if len(shape) == 3 else 1
    if lengths.shape != shape[:1] or lengths.dtype.kind not in "iu":
        raise BadData(
            f"The lengths have the type {lengths.dtype} and the shape {lengths.shape}. They must "
            f"be integers, one for each of the {shape[0]:,} queries."
        )
    wrong = np.flatnonzero((lengths < 1) | (lengths > longest))
    if wrong.size:
        raise BadData(
            f"lengths[{wrong[0]}] is {lengths[wrong[0]]}, but it must be between 1 and {longest}."
        )
    return lengths.astype(np.int64)


@dataclass
class MemorySource:
    """Unchecked rows; `largest_read` is the largest number of rows of one read."""

    rows: NDArray[Any]
    dtype: DType = "float32"
    name: str = "vectors"
    uri: str = "memory"
    largest_read: int = 0
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.shape = self.rows.shape

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        found = self.rows[ids]
        if out is None:
            return found
        out[:] = found
        return out

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        self.largest_read = max(self.largest_read, stop - start)
        if out is None:
            view = self.rows[start:stop]
            view.flags.writeable = False
            return view
        out[:] = self.rows[start:stop]
        return out

    def fingerprint(self) -> str:
        return "memory"


@dataclass(frozen=True)
class VectorRef:
    """Location of an array, and the view of it: which rows, whether at unit length."""

    uri: str
    array: str  # A name, or several joined by `+`: stacked one after another.
    storage: str = "auto"
    rows_path: str | None = None  # A .npy file of int64 row numbers; None: all rows in order.
    unit: bool = False
    missing: str = "refuse"  # See `data.missing`.
    column_path: str | None = None  # A .npy file of float32, one more dimension; None: as stored.


class OpenRef:
    """`source` to read from, `store` to check, `close` when done."""

    def __init__(self, source: VectorSource, store: Store) -> None:
        self.source = source
        self.store = store

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_ref(ref: VectorRef) -> OpenRef:
    """Use the result with `with`, or close it."""
    store = open_store(ref.uri, ref.storage, ref.missing)
    try:
        source: VectorSource
        if ref.array in store.names() or "+" not in ref.array:
            source = store.source(ref.array)
        else:
            source = StackedRows([store.source(name) for name in ref.array.split("+")])
        if ref.rows_path is not None:
            source = RowView(source, _row_numbers(ref.rows_path))
        source = UnitRows(source) if ref.unit else source
        if ref.column_path is not None:
            source = WithColumn(source, np.load(ref.column_path, allow_pickle=False))
        return OpenRef(source, store)
    except BaseException:
        store.close()
        raise


def rows_of(ref: VectorRef, rows: range, folder: Path) -> VectorRef:
    """Of a referenced array these rows; their numbers are written to `folder`. Raises StorageError."""
    numbers = np.arange(rows.start, rows.stop)
    if ref.rows_path is not None:
        numbers = _row_numbers(ref.rows_path)[rows.start : rows.stop]
    path = folder / "own-rows.npy"
    try:
        np.save(path, numbers)
    except OSError as error:
        raise storage_error(error, str(path)) from error
    return replace(ref, rows_path=str(path.resolve()))


def _row_numbers(path: str) -> NDArray[np.int64]:
    try:
        rows = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise DataMissing(f"{path}: the file of row numbers no longer exists.") from None
    except (ValueError, EOFError) as error:
        raise BadData(f"{path}: could not read the file of row numbers: {error}") from None
    if not isinstance(rows, np.ndarray) or rows.dtype != np.int64 or rows.ndim != 1:
        raise BadData(f"{path}: the row numbers must be one int64 array with one dimension.")
    return rows
