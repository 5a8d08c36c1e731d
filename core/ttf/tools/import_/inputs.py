"""Opens an input by its ending; what no reader here knows is asked of the storage plugins."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Final

from ttf.data.vectors import numpy_dtype
from ttf.errors import BadData
from ttf.host.plugins import is_local
from ttf.text.numbers import size
from ttf.tools.import_ import faiss_flat, hdf5, texmex, torch_file
from ttf.tools.import_.columns import Input
from ttf.tools.import_.stores import open_stored


def open_input(uri: str, storage: str = "auto") -> Input:
    """Raises BadData, DataMissing, ConfigError or PluginUnavailable."""
    if storage == "auto" and is_local(uri):
        path = Path(uri)
        for endings, opener in _READERS:
            if path.name.lower().endswith(endings) and not path.is_dir():
                opened = opener(path)
                try:
                    refuse_inflated(opened, path.stat().st_size)
                except BaseException:
                    opened.close()
                    raise
                return opened
    return open_stored(uri, storage)


def refuse_inflated(given: Input, size_bytes: int) -> None:
    """Raises BadData for a file that declares what it cannot hold: chunks of HDF5 that do not exist are
    read as zeros, and two kilobytes would fill the disk."""
    declared = 0
    for column in given.columns.values():
        if column.dtype != "text":
            declared += prod(column.shape) * int(numpy_dtype(column.dtype).itemsize)
    if declared > _MOST_RATIO * size_bytes:
        raise BadData(
            f"{given.uri} declares {size(declared)} of numbers, but it has only {size(size_bytes)}.",
            hint="Most of it is missing, or was never written. Copy the file again.",
        )


# Of numbers to bytes of a file; deflate reaches 1,030.
_MOST_RATIO: Final = 2000
_READERS: tuple[tuple[tuple[str, ...], Callable[[Path], Input]], ...] = (
    (texmex.ENDINGS, texmex.open_texmex),
    (faiss_flat.ENDINGS, faiss_flat.open_faiss),
    (hdf5.ENDINGS, hdf5.open_hdf5),
    (torch_file.ENDINGS, torch_file.open_torch),
)
