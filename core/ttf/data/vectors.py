"""Rows of numbers: stored dtypes, conversion to and from float32, unit length, memory, row views.

bfloat16 is held as uint16 bits, because numpy has no such type.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import math
import mmap
import weakref
from collections import deque
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType, VectorSource
from ttf.errors import BadData

DTYPES: Final[tuple[DType, ...]] = ("float32", "float16", "bfloat16", "int32", "int64", "uint8")
FLOATS: Final[tuple[DType, ...]] = ("float32", "float16", "bfloat16")

_CACHE_LINE: Final = 64
_WORTH_ALIGNING: Final = 4096
_WORTH_KEEPING: Final = 256 << 10  # Smaller arrays are reused by the allocator itself.

_SHORT: Final[dict[str, DType]] = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def parse_dtype(text: str) -> DType:
    """A stored dtype from its long or short name; raises ValueError.

    >>> parse_dtype("bf16")
    'bfloat16'
    """
    name = _SHORT.get(text.lower(), text.lower())
    if name not in DTYPES:
        raise ValueError(f"there is no dtype {text!r}. Known: {', '.join([*_SHORT, *DTYPES])}")
    return name


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy type of a stored dtype: bfloat16 is uint16 bits, everything little-endian."""
    return np.dtype("uint16" if dtype == "bfloat16" else dtype).newbyteorder("<")


def npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """The first bytes of a .npy file of such an array."""
    file = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(dtype)
    fields = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.getvalue()


def to_float32(
    rows: NDArray[Any], dtype: DType, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Stored rows as float32, exactly, in `out` if given; else the array itself if it is
    float32."""
    if out is not None:
        if dtype == "bfloat16":
            np.left_shift(rows, np.uint32(16), out=out.view(np.uint32), dtype=np.uint32)
        else:
            np.copyto(out, rows)
        return out
    if dtype == "bfloat16":
        bits = rows.astype(np.uint32)
        bits <<= np.uint32(16)
        return bits.view(np.float32)
    return rows.astype(np.float32, copy=False)


def from_float32(rows: NDArray[np.float32], dtype: DType) -> NDArray[Any]:
    """float32 rows in the stored dtype, rounded to nearest even; NaN stays NaN.

    Finite values beyond the range of float16 become infinite: the caller checks if it matters.
    """
    if dtype != "bfloat16":
        with np.errstate(over="ignore"):
            return rows.astype(numpy_dtype(dtype), copy=False)
    bits = np.ascontiguousarray(rows, dtype=np.float32).view(np.uint32)
    # The carry out of the low half rounds up; an odd kept bit makes ties go to even.
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(rows), quiet, rounded).astype(np.uint16)


def row_norms(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The Euclidean length along the last axis, without intermediate overflow or underflow."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        norms = np.sqrt(np.einsum("...i,...i->...", rows, rows))
        extreme = ~((norms > 1e-15) & (norms < 1e18))
        if rows.size and extreme.any():
            picked = rows[extreme]
            scale = np.abs(picked).max(axis=-1, keepdims=True)
            scaled = np.divide(picked, scale, out=np.zeros_like(picked), where=scale > 0)
            again = np.sqrt(np.einsum("...i,...i->...", scaled, scaled)) * scale[..., 0]
            norms = np.array(norms)
            norms[extreme] = np.where(np.isnan(picked).any(axis=-1), np.nan, again)
    return np.asarray(norms, dtype=np.float32)


def unit_rows(rows: NDArray[np.float32], *, in_place: bool = False) -> NDArray[np.float32]:
    """Rows scaled to length one along the last axis, a copy by default; zero rows stay zero."""
    norms = row_norms(rows)[..., None]
    out = rows if in_place else np.empty_like(rows)
    np.divide(rows, np.where(norms > 0, norms, np.float32(1)), out=out)
    return out


def checked_ids(ids: NDArray[Any], size: int, name: str) -> NDArray[np.int64]:
    """Row ids as non-negative int64; IndexError names the first one outside -size..size-1."""
    given = np.asarray(ids)
    if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
        raise IndexError(
            f"row ids of {name} must be a 1-D integer array, not {given.dtype} {given.shape}"
        )
    rows = given.astype(np.int64, copy=False)
    if not rows.size:
        return rows
    if int(rows.view(np.uint64).max()) < size:  # as if unsigned: negative ones are huge
        return rows
    low, high = int(rows.min()), int(rows.max())
    if low < -size or high >= size:
        wrong = low if low < -size else high
        raise IndexError(f"row {wrong} is out of range for {name} with {size} rows")
    return np.where(rows < 0, rows + size, rows) if low < 0 else rows


def checked_span(start: int, stop: int, size: int, name: str) -> None:
    """IndexError unless 0 <= start <= stop <= size."""
    if not 0 <= start <= stop <= size:
        raise IndexError(f"rows {start}..{stop} are out of range for {name} with {size} rows")


def checked_out(
    out: NDArray[Any] | None, shape: tuple[int, ...], dtype: DType, name: str
) -> NDArray[Any]:
    """`out` if it fits, a new array if there is none; ValueError if it does not fit."""
    if out is None:
        return empty_rows(shape, dtype)
    if out.shape != shape or out.dtype != numpy_dtype(dtype) or not out.flags.c_contiguous:
        raise ValueError(
            f"out for {name} must be C-contiguous {numpy_dtype(dtype)} {shape}, "
            f"not {out.dtype} {out.shape}"
        )
    return out


def empty_rows(shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
    """Uninitialised rows that start on a cache line: copying to them is a quarter faster."""
    held = numpy_dtype(dtype)
    wanted = math.prod(shape) * held.itemsize
    if wanted < _WORTH_ALIGNING:
        return np.empty(shape, held)
    raw = np.empty(wanted + _CACHE_LINE - 1, np.uint8)
    start = -raw.__array_interface__["data"][0] % _CACHE_LINE
    return raw[start : start + wanted].view(held).reshape(shape)


class Buffers:
    """Arrays of a few sizes that are reused: fresh pages cost as much as filling them.

    An array, its views and tensors made of it may be kept for any time. Only when the last of them
    is gone is its memory used for another array. Safe to use from several threads.
    """

    def __init__(self) -> None:
        # In a list, for the callbacks of arrays: they must not hold this object.
        self._free: list[dict[int, deque[mmap.mmap]]] = [{}]
        self._lent: dict[int, weakref.ref[NDArray[Any]]] = {}
        self._numbers = itertools.count()

    def give_back(self) -> None:
        """Returns what is not lent to the system, and what is lent as soon as it comes back."""
        self._free[0] = {}

    def rows(self, shape: tuple[int, ...], dtype: DType = "float32") -> NDArray[Any]:
        """Rows to be filled: they hold old data."""
        held = numpy_dtype(dtype)
        size = math.prod(shape) * held.itemsize
        if size < _WORTH_KEEPING:
            return empty_rows(shape, dtype)
        every = self._free
        free = every[0].setdefault(size, deque())
        try:
            memory = free.pop()
        except IndexError:
            memory = _memory(size)
        array: NDArray[Any] = np.ndarray(shape, held, buffer=memory)
        lent, number = self._lent, next(self._numbers)

        def back(_: weakref.ref[NDArray[Any]]) -> None:
            lent.pop(number, None)
            if every[0].get(size) is free:
                free.append(memory)

        # Views and tensors refer to `array`, which refers to `memory`: while one lives, all do.
        lent[number] = weakref.ref(array, back)
        return array


def _memory(size: int) -> mmap.mmap:
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def will_need(source: VectorSource, ids: NDArray[np.int64]) -> None:
    """Tells a source which rows will be gathered soon, if it supports that: a source on a disk may
    start reading."""
    if isinstance(source, ReadsAhead):
        source.will_need(ids)


def on_disk(source: VectorSource) -> bool:
    """True if recent gathers of a source waited for a disk, so that `will_need` helps."""
    return isinstance(source, ReadsAhead) and source.on_disk


@runtime_checkable
class ReadsAhead(Protocol):
    """Optional methods of a `VectorSource`: gets rows before they are gathered."""

    @property
    def on_disk(self) -> bool:
        """True if recent gathers waited for a disk; a guess, only a hint."""
        ...

    def will_need(self, ids: NDArray[np.int64]) -> None:
        """Returns at once; cheap if the rows are in memory."""
        ...


@runtime_checkable
class SlowRows(Protocol):
    """Optional for a `VectorSource`: one that must decode much to get a single row."""

    @property
    def slow_rows(self) -> str:
        """A sentence for the user of a run that reads random rows; empty if that is fast."""
        ...


class _View:
    def __init__(self, source: VectorSource, shape: tuple[int, ...], dtype: DType) -> None:
        self.source = source
        self.name = source.name
        self.uri = source.uri
        self.shape = shape
        self.dtype: DType = dtype

    @property
    def on_disk(self) -> bool:
        return on_disk(self.source)


class RowView(_View):
    """Some rows of another source in any order; holds only the row numbers."""

    def __init__(self, source: VectorSource, rows: NDArray[np.int64]) -> None:
        self.rows = _rows_of(source, rows)
        super().__init__(source, (len(self.rows), *source.shape[1:]), source.dtype)

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        return self.source.gather(self.rows[checked_ids(ids, len(self.rows), self.name)], out)

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        checked_span(start, stop, len(self.rows), self.name)
        return self.source.gather(self.rows[start:stop], out)

    def will_need(self, ids: NDArray[np.int64]) -> None:
        will_need(self.source, self.rows[checked_ids(ids, len(self.rows), self.name)])

    def fingerprint(self) -> str:
        digest = _digest(self.source.fingerprint())
        digest.update(np.ascontiguousarray(self.rows, dtype="<i8").view(np.uint8).data)
        return digest.hexdigest()


class UnitRows(_View):
    """Another source as float32 rows of length one; zero rows stay zero."""

    def __init__(self, source: VectorSource) -> None:
        if source.dtype not in FLOATS:
            raise BadData(
                f"{source.uri}: the array {source.name!r} contains {source.dtype} values, not "
                "vectors.",
                hint="Vectors must be float32, float16 or bfloat16.",
            )
        super().__init__(source, source.shape, "float32")

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        direct = out if self.source.dtype == "float32" else None
        return self._normalised(self.source.gather(ids, direct), out, owned=True)

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        return self._normalised(self.source.read(start, stop), out, owned=False)

    def will_need(self, ids: NDArray[np.int64]) -> None:
        will_need(self.source, ids)

    def fingerprint(self) -> str:
        return _digest(f"unit:{self.source.fingerprint()}").hexdigest()

    def _normalised(
        self, stored: NDArray[Any], out: NDArray[Any] | None, *, owned: bool
    ) -> NDArray[Any]:
        wide = to_float32(stored, self.source.dtype)
        if out is None:
            # read() may hand out a view of the file: only what was copied is changed in place.
            return unit_rows(wide, in_place=owned or self.source.dtype != "float32")
        into = checked_out(out, wide.shape, "float32", self.name)
        if into is not wide:
            np.copyto(into, wide)
        return unit_rows(into, in_place=True)


def _digest(text: str) -> hashlib.blake2b:
    return hashlib.blake2b(text.encode(), digest_size=16)


def _rows_of(source: VectorSource, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    try:
        return checked_ids(rows, source.shape[0], source.name)
    except IndexError as error:
        raise BadData(
            f"{source.uri}: {error}.",
            hint="The row numbers belong to another file. Make new row numbers for this file.",
        ) from None


class _Writable:
    """The memory of an array with a different flag."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.owner = array
        memory = array.__array_interface__
        self.__array_interface__ = {**memory, "data": (memory["data"][0], False)}


def seen_as_writable(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory, marked writable: torch warns about every view of a read-only file
    (pytorch#178261). Nothing writes to it; a private map would count as our own memory."""
    return array if array.flags.writeable else np.asarray(_Writable(array))
