"""Flat FAISS indexes, also in an IndexIDMap, without FAISS: its reader trusts what a file says.

Every length is compared with the size of the file before anything is read, and vectors are read by
blocks; FAISS would load the index as a whole.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.errors import BadData
from ttf.tools.import_.columns import Column, Input, InputFile

ENDINGS: Final = (".faiss", ".index")
_FLAT: Final = {b"IxFI": "inner product", b"IxF2": "Euclidean distance", b"IxFl": "a metric"}
_MAPPED: Final = (b"IxMp", b"IxM2")
_HEAD: Final = struct.Struct("<iqqqBi")
_COUNT: Final = struct.Struct("<Q")
_WIDEST: Final = 1 << 20


def open_faiss(path: Path) -> Input:
    file = InputFile(path)
    try:
        return _opened(file)
    except BaseException:
        file.close()
        raise


def _opened(file: InputFile) -> Input:
    kind = file.bytes_at(0, 4)
    mapped = kind in _MAPPED
    start = 0
    if mapped:
        _, rows_outside, start = _header(file, 0)
        kind = file.bytes_at(start, 4)
    if kind not in _FLAT:
        shown = kind.decode("latin-1") if kind.isalnum() else repr(kind)
        raise BadData(
            f"{file.path} is no flat FAISS index: it holds {shown!r}. Other indexes keep codes or "
            "parts of the vectors, and files of other programs cannot be read here.",
            hint="Import the vectors from where the index was made, or in Python, for an index that "
            "keeps them: faiss.write_index(flat, FILE) of an IndexFlatIP with the vectors of "
            "index.reconstruct_n(0, index.ntotal).",
        )
    dim, rows, at = _header(file, start)
    first = at + _COUNT.size
    numbers = _count(file, at)
    if kind != b"IxFl" or numbers == rows * dim * 4:
        # The codes are counted in bytes since FAISS 1.7, in numbers before.
        numbers = numbers // 4 if numbers == rows * dim * 4 and dim * rows else numbers
    if numbers != rows * dim:
        raise _damaged(file, f"it declares {rows:,} rows of {dim}, but {numbers:,} numbers")
    end = first + rows * dim * 4
    columns = {"vectors": _floats(file, first, rows, dim)}
    if mapped:
        if rows_outside != rows or _count(file, end) != rows:
            raise _damaged(file, "it has not one id per vector")
        columns["ids"] = _ids(file, end + _COUNT.size, rows)
        end += _COUNT.size + rows * 8
    if end != file.size:
        raise _damaged(file, f"it should have {end:,} bytes, but it has {file.size:,}")
    notes = ["ttf searches by inner product."] if kind != b"IxFI" else []
    if notes:
        notes[0] = (
            f"The index compares by {_FLAT[kind]}; ttf compares by inner product, of vectors that it "
            "scales to length one."
        )
    return Input(
        uri=str(file.path),
        what="a flat FAISS index",
        columns=columns,
        identity=file.identity(),
        check_unchanged=file.check_unchanged,
        close=file.close,
        defaults={"vectors": "vectors"} | ({"ids": "ids"} if mapped else {}),
        notes=tuple(notes),
    )


def _header(file: InputFile, start: int) -> tuple[int, int, int]:
    """Width, rows, and where the header ends."""
    raw = file.bytes_at(start + 4, _HEAD.size)
    if len(raw) != _HEAD.size:
        raise _damaged(file, "its header is cut")
    dim, rows, _, _, _, metric = _HEAD.unpack(raw)
    if not 0 < dim <= _WIDEST or not 0 <= rows <= file.size:
        raise _damaged(file, f"its header declares {rows:,} rows of {dim:,} numbers")
    return dim, rows, start + 4 + _HEAD.size + (4 if metric > 1 else 0)


def _count(file: InputFile, at: int) -> int:
    raw = file.bytes_at(at, _COUNT.size)
    if len(raw) != _COUNT.size:
        raise _damaged(file, "it ends too early")
    return int(_COUNT.unpack(raw)[0])


def _floats(file: InputFile, first: int, rows: int, dim: int) -> Column:
    def read(start: int, stop: int) -> NDArray[Any]:
        raw = file.bytes_at(first + start * dim * 4, (stop - start) * dim * 4)
        return np.frombuffer(raw, "<f4").reshape(stop - start, dim)

    return Column("vectors", (rows, dim), "float32", read)


def _ids(file: InputFile, first: int, rows: int) -> Column:
    def read(start: int, stop: int) -> NDArray[Any]:
        return np.frombuffer(file.bytes_at(first + start * 8, (stop - start) * 8), "<i8")

    return Column("ids", (rows,), "int64", read)


def _damaged(file: InputFile, why: str) -> BadData:
    return BadData(
        f"{file.path} is damaged, truncated, or no FAISS index: {why}.", hint="Copy it again."
    )
