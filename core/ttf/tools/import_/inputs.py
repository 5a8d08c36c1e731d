"""Opens an input by its ending; what no reader here knows is asked of the storage plugins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ttf.host.plugins import is_local
from ttf.tools.import_ import faiss_flat, hdf5, texmex, torch_file
from ttf.tools.import_.columns import Input
from ttf.tools.import_.stores import open_stored


def open_input(uri: str, storage: str = "auto") -> Input:
    """Raises BadData, DataMissing, ConfigError or PluginUnavailable."""
    if storage == "auto" and is_local(uri):
        path = Path(uri)
        for endings, opener in _READERS:
            if path.name.lower().endswith(endings) and not path.is_dir():
                return opener(path)
    return open_stored(uri, storage)


_READERS: tuple[tuple[tuple[str, ...], Callable[[Path], Input]], ...] = (
    (texmex.ENDINGS, texmex.open_texmex),
    (faiss_flat.ENDINGS, faiss_flat.open_faiss),
    (hdf5.ENDINGS, hdf5.open_hdf5),
    (torch_file.ENDINGS, torch_file.open_torch),
)
