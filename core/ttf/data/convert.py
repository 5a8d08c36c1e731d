"""Rewrites a container: another format, another type of its vectors, uncompressed, aligned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttf.data.array_stream import Rows, as_float32, converted, stream_rows
from ttf.data.vectors import FLOATS
from ttf.data.writing import array_bytes, writing
from ttf.errors import ArrayMissing, BadData, ConfigError, suggestion
from ttf.host.plugins import open_store

if TYPE_CHECKING:
    from ttf.contracts import DType, Progress, Store


@dataclass(frozen=True)
class Converted:
    """What was written, and which single values were left out."""

    path: str
    arrays: list[dict[str, Any]]
    left_out: list[str]


def convert(
    source: str,
    target: str,
    *,
    dtype: DType | None = None,
    arrays: Sequence[str] = (),
    storage: str = "auto",
    to_storage: str = "auto",
    progress: Progress | None = None,
) -> Converted:
    """Streams every array (or those named) with bounded memory; progress counts rows."""
    if "://" not in source and Path(source).resolve() == Path(target).resolve():
        raise ConfigError(f"{target} is the input itself.", hint="Name another output.")
    if dtype is not None and dtype not in FLOATS:
        raise ConfigError(f"Vectors cannot become {dtype}; known: {', '.join(FLOATS)}.")
    store = open_store(source, storage)
    try:
        names, left_out = _chosen(store, arrays)
        planned = {n: _as_wanted(stream_rows(store, n), dtype, source, n) for n in names}
        _write(target, to_storage, planned, progress)
        store.check_unchanged()
    finally:
        store.close()
    about = [
        {"name": n, "shape": list(rows.shape), "dtype": rows.dtype} for n, rows in planned.items()
    ]
    return Converted(target, about, left_out)


def _chosen(store: Store, wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arrays to write, and single values, which are left out unless they were asked for."""
    known = list(store.names())
    for name in wanted:
        if name not in known:
            raise ArrayMissing(f"{store.uri}: there is no array {name!r}.{suggestion(name, known)}")
    if wanted:
        return list(wanted), []
    single = [n for n in known if store.describe(n).get("shape") == []]
    names = [n for n in known if n not in single]
    if not names:
        raise BadData(f"{store.uri} holds no arrays.")
    return names, single


def _as_wanted(rows: Rows, dtype: DType | None, uri: str, name: str) -> Rows:
    if dtype is None:
        return rows
    vectors = name == "vectors" or name.startswith(("X_", "Y_"))
    rows = as_float32(rows) if vectors else rows
    return converted(rows, dtype, f"{uri}: the array {name!r}")


def _write(target: str, storage: str, planned: dict[str, Rows], progress: Progress | None) -> None:
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
