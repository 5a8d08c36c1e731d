"""Which columns of an input become vectors and ids of the bank, queries and positives of the pairs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType
from ttf.data.vectors import FLOATS, from_float32, numpy_dtype, to_float32
from ttf.errors import ArrayMissing, BadData, ConfigError, suggestion
from ttf.tools.import_.columns import Column, Input, fitting

NONE: Final = "none"
_IDS: Final = re.compile(r"_?(ids?|(doc|document|point|row)_?ids?)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The user's answers; None: by name and shape."""

    vectors: str | None = None
    ids: str | None = None
    num_positives: int = 1
    dtype: DType | None = None


def bank_columns(given: Input, wanted: Wanted) -> dict[str, Column]:
    """`vectors`, and `ids` if there are some."""
    vectors = _vectors(given, wanted.vectors or given.defaults.get("vectors"), "--vectors")
    found = {"vectors": _as_vectors(vectors, given.uri, wanted.dtype)}
    name = wanted.ids or given.defaults.get("ids") or _likely_ids(given, vectors.shape[0])
    if name and name != NONE:
        found["ids"] = _as_ids(_named(given, name, "--ids"), given.uri, vectors.shape[0])
    return found


def pair_columns(
    queries: Input, query_name: str | None, positives: Input, positive_name: str | None,
    bank_rows: int, wanted: Wanted,
) -> dict[str, Column]:  # fmt: skip
    """`X_train` and `pos_train`, the first so many positives of each query."""
    x = _vectors(queries, query_name, "--queries")
    found = _named(positives, positive_name, "--positives") if positive_name else None
    if found is None:
        whole = [c for c in positives.columns.values() if c.dtype in ("int32", "int64")]
        if len(whole) != 1:
            raise ConfigError(
                f"{positives.uri} must have one array of row numbers for the positives. It has: "
                f"{_listed(positives.columns)}.",
                hint="Name the array of the main input: --positives NAME.",
            )
        found = whole[0]
    if found.dtype not in ("int32", "int64") or len(found.shape) > 2:
        raise BadData(
            f"{positives.uri}: {found.name} has the type {found.dtype} and the shape {found.shape}, "
            "but positives are row numbers of the bank."
        )
    if found.shape[0] != x.shape[0]:
        raise BadData(
            f"{queries.uri} has {x.shape[0]:,} queries ({x.name}), but {positives.uri} has "
            f"{found.shape[0]:,} rows of positives ({found.name})."
        )
    return {
        "X_train": _as_vectors(x, queries.uri, wanted.dtype),
        "pos_train": _as_positives(found, positives.uri, bank_rows, wanted.num_positives),
    }


def _vectors(given: Input, name: str | None, flag: str) -> Column:
    if name:
        column = _named(given, name, flag)
    else:
        likely = [c for c in given.columns.values() if c.dtype in FLOATS and len(c.shape) == 2]
        named = [c for c in likely if c.name == "vectors"]
        likely = named or likely or [
            c for c in given.columns.values() if c.dtype == "uint8" and len(c.shape) == 2
        ]  # fmt: skip
        if len(likely) != 1:
            what = "several arrays" if likely else "no array"
            hint = "" if not likely else f"Name one: {flag} {likely[0].name}"
            raise ArrayMissing(
                f"{given.uri} has {what} of vectors (N, D). It has: {_listed(given.columns)}.",
                hint=hint or "A column of vectors is needed: numbers, or lists of one length.",
            )
        column = likely[0]
    if column.dtype not in (*FLOATS, "uint8") or len(column.shape) != 2 or 0 in column.shape:
        raise BadData(
            f"{given.uri}: {column.name} has the type {column.dtype} and the shape {column.shape}. "
            "Vectors must be numbers with a fraction, with the shape (N, D), and not empty."
        )
    return column


def _named(given: Input, name: str, flag: str) -> Column:
    if why := given.unreadable.get(name):
        raise BadData(f"{given.uri}: {name} ({flag}) cannot be read: {why}")
    if name not in given.columns:
        raise ArrayMissing(
            f"{given.uri} has no array {name!r} ({flag}). It has: {_listed(given.columns)}."
            f"{suggestion(name, given.columns)}"
        )
    return given.columns[name]


def _listed(columns: Mapping[str, Column]) -> str:
    shown = [f"{c.name} {'x'.join(map(str, c.shape))} {c.dtype}" for c in columns.values()]
    return ", ".join(shown) or "no arrays"


def _likely_ids(given: Input, rows: int) -> str:
    likely = [
        c.name for c in given.columns.values()
        if _IDS.fullmatch(c.name) and c.shape == (rows,) and c.dtype in ("text", "int32", "int64")
    ]  # fmt: skip
    return likely[0] if len(likely) == 1 else ""


def _as_vectors(column: Column, uri: str, dtype: DType | None) -> Column:
    if column.dtype == "uint8":
        # Every byte is exact in float16.
        column = _mapped(column, "float16", lambda rows, _: rows.astype(np.float16))
    held = column.dtype
    assert held != "text"
    target = dtype or held

    def changed(rows: NDArray[Any], start: int) -> NDArray[Any]:
        wide = to_float32(rows, held)
        narrow = from_float32(wide, target)
        if target == "float16":
            return fitting(wide, np.dtype(np.float16), start, f"{uri}: {column.name}")
        return narrow

    return column if target == held else _mapped(column, target, changed)


def _as_ids(column: Column, uri: str, rows: int) -> Column:
    if column.dtype not in ("text", "int32", "int64") or column.shape != (rows,):
        raise BadData(
            f"{uri}: {column.name} has the type {column.dtype} and the shape {column.shape}, but ids "
            f"must be whole numbers or strings, one for each of the {rows:,} vectors.",
            hint="Name other ids, or leave them out: --ids none",
        )
    if column.dtype == "text":
        return column
    return _mapped(column, "int64", lambda found, _: found.astype(np.int64))


def _as_positives(column: Column, uri: str, bank_rows: int, most: int) -> Column:
    width = 1 if len(column.shape) == 1 else column.shape[1]
    if most > width:
        raise ConfigError(
            f"{uri}: {column.name} has {width} row numbers for each query, but {most} are asked for.",
            hint=f"--num-positives {width}",
        )

    def cut(rows: NDArray[Any], start: int) -> NDArray[Any]:
        kept = rows.reshape(len(rows), -1)[:, :most].astype(np.int64)
        wrong = np.argwhere((kept < -1) | (kept >= bank_rows))
        if len(wrong):
            row, place = map(int, wrong[0])
            raise BadData(
                f"{uri}: {column.name}, row {start + row}: the positive {int(kept[row, place])} is no "
                f"row of a bank with {bank_rows:,} vectors.",
                hint="Positives are row numbers that count from 0; -1: unknown.",
            )
        return kept

    shaped = replace(column, shape=(column.shape[0], most))
    return _mapped(shaped, "int64", cut)


def _mapped(
    column: Column, dtype: DType, change: Callable[[NDArray[Any], int], NDArray[Any]]
) -> Column:
    read, held = column.read, numpy_dtype(dtype)

    def changed(start: int, stop: int) -> NDArray[Any]:
        return change(read(start, stop), start).astype(held, copy=False)

    return replace(column, dtype=dtype, read=changed)
