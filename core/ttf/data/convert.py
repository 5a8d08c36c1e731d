"""Rewrites a container: another format or dtype, uncompressed, aligned.

Arrays are read once from front to back: by rows if possible, else decompressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType, Progress, Store
from ttf.data.foreign_content import foreign_content, is_sparse
from ttf.data.text_arrays import Text, column_type, columns_left_out, put_text, text_of
from ttf.data.vectors import FLOATS, from_float32, numpy_dtype, to_float32
from ttf.data.writing import array_bytes, block_rows, writing
from ttf.errors import ArrayMissing, BadData, ConfigError, suggestion
from ttf.host.plugins import open_store

_AS_STORED: Final[dict[str, DType]] = {
    np.dtype(np.longdouble).name: "float32",
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
    """An array that its store cannot read by rows."""

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
    """An array in one of the stored types, block by block; the blocks can be read once."""

    shape: tuple[int, ...]
    dtype: DType
    blocks: Iterator[NDArray[Any]]


def stream_rows(store: Store, name: str, *, checked: bool = False) -> Rows:
    """Raises BadData (or its subclass DataCompressed) if the store cannot read the array.

    `checked`: the last block is followed by the comparison of an NPZ file's checksum, which mapped
    rows do without.
    """
    if checked and store.container == "npz" and isinstance(store, Streams):
        return _widened(store, name)
    try:
        source = store.source(name)
    except BadData:
        if not isinstance(store, Streams):
            raise
        return _widened(store, name)
    if isinstance(store, Streams) and store.describe(name)["dtype"] != source.dtype:
        return _widened(store, name)  # checks the range of every value
    step = block_rows(source.shape, numpy_dtype(source.dtype).itemsize)
    spans = ((s, min(s + step, source.shape[0])) for s in range(0, source.shape[0], step))
    return Rows(source.shape, source.dtype, (source.read(a, b) for a, b in spans))


def as_float32(rows: Rows) -> Rows:
    """Integers that are used as vectors; floating point stays unchanged."""
    if rows.dtype in FLOATS:
        return rows
    return Rows(rows.shape, "float32", (block.astype(np.float32) for block in rows.blocks))


def converted(rows: Rows, dtype: DType, where: str) -> Rows:
    """The same vectors in another type; BadData names a row that does not fit."""
    if dtype == rows.dtype or rows.dtype not in FLOATS:
        return rows

    def blocks() -> Iterator[NDArray[Any]]:
        start = 0
        for block in rows.blocks:
            wide = to_float32(block, rows.dtype)
            narrow = from_float32(wide, dtype)
            check_range(wide, to_float32(narrow, dtype), start, dtype, where)
            start += len(block)
            yield narrow

    return Rows(rows.shape, dtype, blocks())


def _widened(store: Streams, name: str) -> Rows:
    raw = store.stream(name)
    if not raw.shape:
        raise BadData(f"The array {name!r} is a single value. It must have rows.")
    dtype = "bfloat16" if raw.marker == "bfloat16" else _AS_STORED.get(raw.dtype.name)
    if dtype is None:
        raise BadData(f"The array {name!r} has the type {raw.dtype}, which cannot be converted.")
    target: DType = dtype

    def blocks() -> Iterator[NDArray[Any]]:
        start = 0
        for block in raw.blocks:
            with np.errstate(over="ignore"):
                fitted = block.astype(numpy_dtype(target), copy=False)
            if raw.dtype.kind == "f" and raw.dtype.itemsize > 4:
                check_range(block, fitted, start, target, f"the array {name!r}")
            elif raw.dtype.name == "uint64" and (block > np.uint64(2**63 - 1)).any():
                raise BadData(
                    f"The array {name!r} contains numbers that are too large for int64.",
                    hint="If these are ids, such as hashes, save them as text: ids.astype(str).",
                )
            start += len(block)
            yield fitted

    return Rows(raw.shape, target, blocks())


def check_range(
    before: NDArray[Any], after: NDArray[Any], start: int, dtype: DType, where: str
) -> None:
    """Raises BadData that names a row which no longer is finite, or is zero and was not."""
    lost = np.isfinite(before) & ~np.isfinite(after)
    if lost.any():
        row = start + int(np.flatnonzero(lost.reshape(len(lost), -1).any(axis=1))[0])
        raise BadData(
            f"{where}: row {row} contains values that are too large for {dtype}.",
            hint="Use --dtype bf16, which has the range of float32, or scale the vectors."
            if dtype == "float16"
            else "Scale the vectors.",
        )
    if before.ndim > 1:
        flat, after = before.reshape(len(before), -1), after.reshape(len(after), -1)
        zero = ~after.any(axis=1)
        if zero.any() and flat[zero].any():
            row = start + int(np.flatnonzero(zero & flat.any(axis=1))[0])
            raise BadData(
                f"{where}: all values of row {row} are too small for {dtype}: they would become 0.",
                hint="Scale the vectors.",
            )


@dataclass(frozen=True)
class Converted:
    """What was written, and the single values that were left out."""

    path: str
    arrays: list[dict[str, Any]]
    left_out: list[str]
    notes: list[str]  # Why, and what was filled.


def convert(
    source: str,
    target: str,
    *,
    dtype: DType | None = None,
    arrays: Sequence[str] = (),
    storage: str = "auto",
    to_storage: str = "auto",
    missing: str = "refuse",
    progress: Progress | None = None,
) -> Converted:
    """Streams every array (or those named) with bounded memory; progress counts rows. `missing`: see
    `data.missing`."""
    if "://" not in source and Path(source).resolve() == Path(target).resolve():
        raise ConfigError(
            f"The output {target} is the same file as the input.", hint="Choose another output."
        )
    if dtype is not None and dtype not in FLOATS:
        raise ConfigError(
            f"Vectors cannot be converted to {dtype}. Known types: {', '.join(FLOATS)}."
        )
    filled: list[str] = []
    store = open_store(source, storage, missing, filled.append)
    try:
        names, notes = _chosen(store, arrays)
        texts = {n: text for n in names if (text := text_of(store, n)) is not None}
        # Checked: a copy of damaged rows would have a checksum that fits them.
        planned = {
            n: _as_wanted(stream_rows(store, n, checked=True), dtype, source, n)
            for n in names
            if n not in texts
        }
        for name, rows in planned.items():
            if 0 in rows.shape[1:]:
                shape = "x".join(map(str, rows.shape))
                raise BadData(
                    f"{source}: the array {name!r} has the shape {shape}: its rows hold no values.",
                    hint="Choose the arrays to convert with --array NAME.",
                )
        notes |= _write(target, to_storage, planned, texts, progress)
        store.check_unchanged()
    finally:
        store.close()
    about = [
        {"name": n, "shape": list(rows.shape), "dtype": rows.dtype} for n, rows in planned.items()
    ]
    about += [
        {"name": n, "shape": list(text.shape), "dtype": str(text.dtype)}
        for n, text in texts.items()
        if n not in notes
    ]
    return Converted(target, about, list(notes), [*notes.values(), *filled])


def _chosen(store: Store, wanted: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The arrays to write, and why others are left out: single values and columns that are no arrays, unless asked for."""
    known, others = list(store.names()), columns_left_out(store)
    for name in wanted:
        if name not in known and name not in others:
            raise ArrayMissing(f"{store.uri}: there is no array {name!r}.{suggestion(name, known)}")
    if wanted:
        return list(wanted), {}
    if is_sparse(store):
        raise BadData(
            f"{store.uri} holds a sparse matrix, whose rows ttf cannot read.",
            hint=foreign_content(store),
        )
    single = [n for n in known if store.describe(n).get("shape") == []]
    names = [n for n in known if n not in single]
    if not names:
        raise BadData(f"{store.uri} contains no arrays.", hint=foreign_content(store))
    why = {n: "a single value and has no rows" for n in single}
    why |= {n: f"a column of the type {column_type(store, n)}" for n in others}
    return names, {n: f"{n!r} was not converted: it is {what}." for n, what in why.items()}


def _as_wanted(rows: Rows, dtype: DType | None, uri: str, name: str) -> Rows:
    if dtype is None:
        return rows
    vectors = name == "vectors" or name.startswith(("X_", "Y_"))
    rows = as_float32(rows) if vectors else rows
    return converted(rows, dtype, f"{uri}: the array {name!r}")


def _write(
    target: str,
    storage: str,
    planned: dict[str, Rows],
    texts: dict[str, Text],
    progress: Progress | None,
) -> dict[str, str]:
    """Why arrays of strings are left out, by name."""
    total = sum(rows.shape[0] for rows in planned.values())
    needed = sum(array_bytes(rows.shape, rows.dtype) for rows in planned.values())
    done = 0
    with writing(target, storage, needed_bytes=needed) as writer:
        for name, rows in planned.items():
            array = writer.array(name, rows.shape, rows.dtype)
            for block in rows.blocks:
                array.append(block)
                done += len(block)
                if progress is not None:
                    progress(done, total)
        held = {name: put_text(writer, name, text) for name, text in texts.items()}
    return {
        name: f"{name!r} was not converted: {target} cannot hold strings."
        for name, written in held.items()
        if not written
    }
