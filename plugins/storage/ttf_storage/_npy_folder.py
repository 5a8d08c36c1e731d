"""A folder of .npy files as one container: `X_train.npy` is the array `X_train`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import ArrayMissing, TtfError, suggestion
from ttf_storage._npz_reader import NPY_ARRAY, NpzStore
from ttf_storage._stored_rows import StoredRows, Stream

_MARKER: Final = ".dtype"


class NpyFolder:
    """Opens a file when its array is asked for."""

    container = "npy"

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._root = Path(uri)
        self._files = {path.stem: path for path in sorted(self._root.glob("[!.]*.npy"))}
        self._stores: dict[str, NpzStore] = {}
        self._sources: dict[str, StoredRows] = {}

    def names(self) -> list[str]:
        return [name for name in self._files if not self._is_marker(name)]

    def source(self, name: str) -> StoredRows:
        if name not in self._sources:
            source = self._store(name).source(NPY_ARRAY)
            source.name, source.uri = name, self.uri
            self._sources[name] = source
        return self._sources[name]

    def describe(self, name: str) -> Mapping[str, Any]:
        return self._store(name).describe(NPY_ARRAY)

    def stream(self, name: str) -> Stream:
        return self._store(name).stream(NPY_ARRAY)

    def text(self, name: str) -> NDArray[np.str_]:
        return self._store(name).text(NPY_ARRAY)

    def check_unchanged(self) -> None:
        for store in self._stores.values():
            store.check_unchanged()

    def verify(self) -> Iterator[str]:
        for name in self.names():
            try:
                yield from self._store(name).verify()
            except TtfError as error:
                yield str(error)

    def close(self) -> None:
        for store in self._stores.values():
            store.close()

    def _is_marker(self, name: str) -> bool:
        return name.endswith(_MARKER) and name.removesuffix(_MARKER) in self._files

    def _store(self, name: str) -> NpzStore:
        if name not in self._stores:
            path = self._files.get(name)
            if path is None:
                raise ArrayMissing(
                    f"{self.uri}: there is no array {name!r}.{suggestion(name, self.names())}"
                )
            self._stores[name] = NpzStore(str(path), self._root, self._marker(name))
        return self._stores[name]

    def _marker(self, name: str) -> str | None:
        """Returns the string in the file `<name>.dtype.npy`, or None."""
        path = self._files.get(name + _MARKER)
        if path is None:
            return None
        with contextlib.closing(NpzStore(str(path), self._root)) as store:
            return store.single_text(NPY_ARRAY)
