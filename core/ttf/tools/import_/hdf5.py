"""HDF5 files, above all those of ann-benchmarks: train, test and neighbors."""

from __future__ import annotations

import importlib.util
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import DType
from ttf.data.vectors import numpy_dtype
from ttf.errors import BadData, PluginUnavailable
from ttf.tools.import_.columns import Column, Input, InputFile, fitting
from ttf.tools.import_.hdf5_chunks import Chunks

ENDINGS: Final = (".h5", ".hdf5", ".hdf")
_MOST_DEPTH: Final = 32
INSTALL: Final = 'pip install "twotower[hdf5]"'
_TEXT_ROWS: Final = 65536
_READ_AS: Final[dict[str, DType]] = {
    "float64": "float32", "float32": "float32", "float16": "float16", "int8": "int32",
    "uint8": "uint8", "int16": "int32", "uint16": "int32", "int32": "int32", "uint32": "int64",
    "int64": "int64", "uint64": "int64",
}  # fmt: skip


def open_hdf5(path: Path) -> Input:
    if importlib.util.find_spec("h5py") is None:
        raise PluginUnavailable(
            f"{path} is an HDF5 file, and the h5py library is not installed.", hint=INSTALL
        )
    import h5py

    file = InputFile(path)  # refuses devices and pipes
    try:
        opened = h5py.File(path, "r")
    except OSError as error:
        file.close()
        why = str(error).splitlines()[0][:200]
        raise BadData(
            f"{path} is damaged, truncated, or no HDF5 file: {why}", hint="Copy it again."
        ) from error

    def close() -> None:
        opened.close()
        file.close()

    try:
        columns: dict[str, Column] = {}
        unreadable: dict[str, str] = {}

        # Follows no link to another file.
        def visit(name: str, item: Any) -> None:
            if name.count("/") > _MOST_DEPTH:
                raise BadData(f"{path} has more than {_MOST_DEPTH} groups in one another.")
            if not isinstance(item, h5py.Dataset):
                return
            if column := _column(path, name, item):
                columns[name] = column
            else:
                unreadable[name] = f"it has the type {item.dtype} and the shape {item.shape}."

        opened.visititems(visit)
        distance = str(opened.attrs.get("distance", ""))
    except BaseException as error:
        close()
        if isinstance(error, OSError | RuntimeError | KeyError | ValueError):
            raise BadData(f"{path} is damaged: {error}", hint="Copy it again.") from error
        raise
    roles = {"vectors": "train", "queries": "test", "positives": "neighbors"}
    notes = []
    if distance not in ("", "angular", "dot", "cosine"):
        notes.append(
            f"The neighbors were found by the distance {distance!r}; ttf compares by inner product, of "
            "vectors that it scales to length one."
        )
    return Input(
        uri=str(path),
        what="an HDF5 file",
        columns=columns,
        identity=file.identity(),
        check_unchanged=file.check_unchanged,
        close=close,
        defaults=roles if all(name in columns for name in roles.values()) else {},
        notes=tuple(notes),
        unreadable=unreadable,
    )


def _column(path: Path, name: str, dataset: Any) -> Column | None:
    import h5py

    if not dataset.shape or dataset.external or dataset.is_virtual:
        return None
    if h5py.check_string_dtype(dataset.dtype) is not None:
        return _text(path, name, dataset) if len(dataset.shape) == 1 else None
    dtype = _READ_AS.get(dataset.dtype.name)
    if dtype is None:
        return None
    held = numpy_dtype(dtype)
    chunks = Chunks(dataset, f"{path}: the data set {name!r}")

    def read(start: int, stop: int) -> NDArray[Any]:
        try:
            chunks.check(start, stop)
            rows = np.asarray(dataset[start:stop])
        except (OSError, RuntimeError, ValueError, zlib.error) as error:
            raise BadData(
                f"{path}: the data set {name!r} is damaged at row {start} or later: "
                f"{str(error)[:200]}",
                hint="Copy the file again.",
            ) from error
        return fitting(rows, held, start, f"{path}: {name}")

    return Column(name, tuple(map(int, dataset.shape)), dtype, read)


def _text(path: Path, name: str, dataset: Any) -> Column:
    rows = int(dataset.shape[0])

    def read(start: int, stop: int) -> NDArray[Any]:
        try:
            # As bytes: the file may call any bytes UTF-8, and h5py would replace the wrong ones.
            found = [bytes(value).decode("utf-8") for value in dataset[start:stop]]
        except (OSError, RuntimeError, ValueError) as error:
            raise BadData(
                f"{path}: the data set {name!r} is damaged at row {start} or later: "
                f"{str(error)[:200]}",
                hint="Copy the file again. If its strings are no UTF-8, leave it out: --ids none",
            ) from error
        return np.array(found, "U" if any(found) else "U1")

    def longest() -> int:
        spans = ((at, min(at + _TEXT_ROWS, rows)) for at in range(0, rows, _TEXT_ROWS))
        return max((len(str(v).encode()) for span in spans for v in read(*span)), default=0)

    return Column(name, (rows,), "text", read, longest)
