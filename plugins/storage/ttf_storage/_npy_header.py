"""Reads the header of a .npy array with numpy's public parsers and trusts no value of it."""

from __future__ import annotations

import codecs
import io
import math
import warnings
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ttf import BadData, DType, numpy_dtype
from ttf_storage._stored_rows import READ_AS

HEAD_BYTES: Final = 16384  # enough for any header that numpy accepts (10,000 characters)

_LARGEST: Final = 1 << 60
_LONGEST_EMPTY: Final = 1 << 31
_MOST_TURNED_BYTES: Final = 1 << 30
_MUCH_TEXT: Final = 128 << 20
_MOST_TIMES: Final = 100
_PARSERS: Final = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
}


@dataclass(frozen=True)
class NpyHeader:
    """What a .npy header declares. `length` is the offset of the first element."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    length: int

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize


def parse_header(head: bytes, where: str) -> NpyHeader:
    """Raises BadData for everything except a plain .npy header. Executes nothing."""
    stream = io.BytesIO(head)
    if len(head) < npy_format.MAGIC_LEN:
        raise BadData(
            f"{where} is truncated: it has only {len(head)} bytes, which is less than a .npy "
            "header.",
            hint="Write or copy the file again.",
        )
    if not head.startswith(npy_format.MAGIC_PREFIX):
        raise BadData(f"{where} is not a numpy array: it does not start with a .npy header.")
    try:
        version = npy_format.read_magic(stream)
        if version not in _PARSERS:
            raise ValueError(f"format version {version[0]}.{version[1]}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's remark on headers of Python 2
            shape, fortran, dtype = _PARSERS[version](stream)
    except Exception as error:  # numpy's parser meets arbitrary bytes: many kinds of errors
        raise BadData(
            f"{where} has a damaged or unsupported .npy header: {str(error)[:200]}",
            hint="Write the array again with numpy.save or numpy.savez.",
        ) from error
    if any(isinstance(n, bool) or n < 0 for n in shape) or beyond(shape, dtype.itemsize):
        raise BadData(f"{where} has a header with the impossible shape {str(shape)[:200]}.")
    return NpyHeader(tuple(shape), dtype, bool(fortran), stream.tell())


def beyond(shape: tuple[int, ...], itemsize: int) -> bool:
    """Whether no memory has room for such a shape. One without a single number takes none, but to
    count its rows would take for ever."""
    numbers = math.prod(max(1, n) for n in shape)
    return numbers * max(1, itemsize) > _LARGEST or (0 in shape and numbers > _LONGEST_EMPTY)


def check_extent(header: NpyHeader, held_bytes: int, where: str) -> None:
    """Raises BadData unless the declared array fills exactly the existing bytes."""
    if header.size_bytes != held_bytes:
        verb = "is truncated" if header.size_bytes > held_bytes else "has too many bytes"
        raise BadData(
            f"{where} {verb}: according to its header ({header.dtype} {header.shape}), it should "
            f"have {header.size_bytes} bytes, but it has {held_bytes}.",
            hint="Write or copy the file again.",
        )


def check_numbers(header: NpyHeader, where: str) -> None:
    """Raises BadData if the array does not hold plain numbers, above all for pickles."""
    if header.dtype.hasobject:
        raise BadData(
            f"{where} contains pickled Python objects. ttf does not load them, because loading "
            "could execute code.",
            hint="Save vectors as numbers: numpy.stack(rows).astype('float32'); and ids as text: "
            "numpy.asarray(ids, dtype=str).",
        )
    if header.dtype.kind not in "fiub":
        raise BadData(
            f"{where} has the type {header.dtype}, but it must contain numbers.",
            hint=_as_numbers(header.dtype),
        )


def _as_numbers(dtype: np.dtype[Any]) -> str:
    """What to save instead; empty if nothing is known."""
    if dtype.names:
        return (
            f"Save one field as an array of its own: array[{dtype.names[0]!r}]. If each field is a "
            "column: numpy.lib.recfunctions.structured_to_unstructured(array)."
        )
    if dtype == np.dtype("V2"):  # numpy forgets the name when it saves the type of ml_dtypes
        return (
            "If it is bfloat16, as jax and ml_dtypes have it, save it as float32: "
            "array.view(ml_dtypes.bfloat16).astype('float32')."
        )
    if dtype.kind == "c":
        return "Save real numbers, for example numpy.hstack([array.real, array.imag])."
    if dtype.kind in "mM":
        return "If these are ids, save them as text: numpy.asarray(ids, dtype=str)."
    return ""


def read_as(header: NpyHeader, marker: str | None, where: str, convert: str) -> DType:
    """Returns the contract's dtype that the rows are read as. `convert` is the command for the
    hint."""
    check_numbers(header, where)
    if header.dtype == np.dtype("<u2") and marker == "bfloat16":
        return "bfloat16"
    dtype = READ_AS.get(header.dtype.name)
    if marker not in (None, header.dtype.name):
        raise BadData(f"{where} is marked as {marker}, but it has the type {header.dtype}.")
    if dtype is None:
        meant = (
            " For bfloat16, add a string member '<name>.dtype' = 'bfloat16'."
            if header.dtype == np.dtype("<u2")
            else ""
        )
        raise BadData(
            f"{where} has the type {header.dtype}, but it must be float32, float16, float64, "
            f"bfloat16, int32, int64 or uint8.{meant}",
            hint=f"Convert it: {convert}",
        )
    if turned(header) and header.size_bytes > _MOST_TURNED_BYTES:
        raise BadData(
            f"{where} is stored in Fortran order, so the values of a row are not next to each "
            "other. In a file of this size, reading rows would take too long.",
            hint=f"Convert it: {convert}",
        )
    return dtype


def refuse_much_text(size_bytes: int, stored: int, where: str) -> None:
    """Raises BadData where strings unpack to far more than those of any real file: numpy holds each in
    the width of the longest, and zeros take no room in a packed file."""
    if size_bytes > max(_MUCH_TEXT, _MOST_TIMES * stored):
        raise BadData(
            f"{where} has {stored:,} bytes, which unpack to {size_bytes / 1e9:,.1f} GB of strings.",
            hint="Write it again, with strings as short as they are, or leave it out.",
        )


def decoded(content: bytes | memoryview, dtype: np.dtype[Any], where: str) -> NDArray[np.str_]:
    """Returns the strings of an array, given its bytes. Raises BadData if they are no text."""
    try:
        held = np.frombuffer(content, dtype)
        if dtype.kind == "S":
            return np.char.decode(held, "utf-8")
        # Python must not meet a number that is no character.
        codecs.decode(content, "utf-32-be" if dtype.byteorder == ">" else "utf-32-le")
    except ValueError as error:
        raise BadData(
            f"{where} holds strings that are not valid text: {error}", hint="Write them again."
        ) from error
    return held.astype(dtype.newbyteorder("="))


def turned(header: NpyHeader) -> bool:
    """True if the values of a row do not lie next to each other."""
    return header.fortran and len(header.shape) > 1


def is_plain(header: NpyHeader, dtype: DType) -> bool:
    """True if the rows can be used as they lie in the file."""
    return not turned(header) and header.dtype == numpy_dtype(dtype)
