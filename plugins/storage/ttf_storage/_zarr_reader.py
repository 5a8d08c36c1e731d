"""An open zarr group. Each array is read directly if possible, else with the zarr library."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import ArrayMissing, BadData, DType, TtfError, suggestion
from ttf_storage._mapped import FileIdentity, check_identity
from ttf_storage._stored_rows import Stream, described
from ttf_storage._zarr_codecs import check_codecs
from ttf_storage._zarr_files import ChunkFile, chunk_bytes, chunk_files
from ttf_storage._zarr_indirect import (
    IndirectRows,
    check_all_written,
    explained,
    open_node,
    open_store,
)
from ttf_storage._zarr_meta import ArrayMeta, contract_dtype, find_arrays, parsed_meta, read_meta
from ttf_storage._zarr_rows import DirectRows, files_digest

if TYPE_CHECKING:
    from ttf_storage._zarr_checked_store import CheckedStore

# With more files, listing them all costs more than reading with zarr.
_MOST_MAPPED_FILES: Final = 20_000
_BLOCK_BYTES: Final = 4 << 20


class ZarrStore:
    """Reads the files of local groups itself; leaves other stores to zarr."""

    container = "zarr"

    def __init__(self, uri: str) -> None:
        self.uri = uri
        local = "://" not in uri
        self._root = Path(uri) if local and Path(uri).is_dir() else None
        self._folders = find_arrays(self._root) if self._root else {}
        self._node: Any = None
        self._stores: list[CheckedStore] = []
        self._archive = FileIdentity.of(Path(uri)) if local and self._root is None else None
        self._opened: dict[str, tuple[DirectRows | IndirectRows, list[ChunkFile]]] = {}
        if self._root is None:
            self._zarr_node()

    def names(self) -> list[str]:
        if self._root is not None:
            return list(self._folders)
        node = self._zarr_node()
        if not hasattr(node, "array_keys"):
            return ["vectors"]
        with explained(self.uri):
            return sorted(node.array_keys())

    def source(self, name: str) -> DirectRows | IndirectRows:
        self._check_name(name)
        if name not in self._opened:
            self._opened[name] = self._open(name)
        return self._opened[name][0]

    def describe(self, name: str) -> Mapping[str, Any]:
        self._check_name(name)
        return described(
            lambda: self._declared(name), lambda: self.source(name), stored="zarr", size=0
        )

    def stream(self, name: str, block_bytes: int = _BLOCK_BYTES) -> Stream:
        """Streams any array of plain numbers through zarr."""
        self._check_name(name)
        array, where = self._zarr_array(name), self._where(name)
        if self._root is not None:
            meta = read_meta(self._folders[name], self._root, where)
            if np.dtype(array.dtype).kind in "fiub":
                chunk_files(self._folders[name], meta, where)
        dtype = np.dtype(array.dtype)
        if dtype.kind not in "fiub" or not array.shape:
            raise BadData(
                f"{where} has the type {dtype} and the shape {tuple(array.shape)}, but it "
                "must be rows of numbers."
            )
        shape = tuple(array.shape)
        row_bytes = max(1, int(np.prod(shape[1:])) * dtype.itemsize)
        step = max(1, block_bytes // row_bytes)
        marker = array.attrs.get("dtype")

        def blocks() -> Iterator[NDArray[Any]]:
            for start in range(0, shape[0], step):
                with explained(where):
                    block = np.asarray(array[start : start + step])
                yield block

        return Stream(shape, dtype, marker if isinstance(marker, str) else None, blocks())

    def check_unchanged(self) -> None:
        """Does not check remote stores: they have no local files."""
        if self._archive is not None:
            check_identity(Path(self.uri), self._archive)
        for _, files in self._opened.values():
            for file in files:
                check_identity(file.path, file.identity)

    def verify(self) -> Iterator[str]:
        for name in self.names():
            try:
                source = self.source(name)
                row_bytes = max(1, int(np.prod(source.shape[1:])) * 8)
                step = max(1, _BLOCK_BYTES // row_bytes)
                for start in range(0, source.shape[0], step):
                    source.read(start, min(start + step, source.shape[0])).sum()
            except TtfError as error:
                yield str(error)

    def close(self) -> None:
        for source, _ in self._opened.values():
            if isinstance(source, DirectRows):
                source.close()
        self._node = None
        for store in self._stores:
            store.close()
        self._stores.clear()

    # -- how an array is opened

    def _open(self, name: str) -> tuple[DirectRows | IndirectRows, list[ChunkFile]]:
        where = self._where(name)
        if self._root is None:
            array = self._zarr_array(name)
            marker = array.attrs.get("dtype")
            dtype = self._dtype(np.dtype(array.dtype).name, marker, len(array.shape), where)
            check_all_written(array, where)
            return IndirectRows(name, self.uri, array, dtype, None), []
        folder = self._folders[name]
        meta = read_meta(folder, self._root, where)
        dtype = self._dtype(meta.dtype, meta.marker, len(meta.shape), where)
        files = chunk_files(folder, meta, where)
        as_stored = dtype in (meta.dtype, "bfloat16")
        if as_stored and meta.by_rows and len(files) <= _MOST_MAPPED_FILES:
            return DirectRows(name, self.uri, meta, dtype, files), files
        digest = functools.partial(files_digest, meta, files)
        return IndirectRows(name, self.uri, self._zarr_array(name), dtype, digest), files

    def _dtype(self, name: str, marker: Any, dimensions: int, where: str) -> DType:
        dtype = contract_dtype(name, marker, where, self._convert_line())
        if dimensions == 0:
            raise BadData(f"{where} is a single number, but it must have rows.")
        return dtype

    def _declared(self, name: str) -> dict[str, Any]:
        if self._root is None:
            array = self._zarr_array(name)
            with explained(self._where(name)):
                size = int(array.nbytes_stored())
            return {"shape": list(array.shape), "dtype": str(array.dtype), "bytes": size}
        folder = self._folders[name]
        size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
        meta: ArrayMeta = read_meta(folder, self._root, self._where(name))
        return {
            "shape": list(meta.shape),
            "dtype": meta.marker or meta.dtype,
            "stored": meta.stored,
            "bytes": size,
        }

    def _zarr_node(self) -> Any:
        if self._node is None:
            self._node = open_node(self._store(), self.uri)
        return self._node

    def _store(self) -> CheckedStore:
        self._stores.append(open_store(self.uri))
        return self._stores[-1]

    def _zarr_array(self, name: str) -> Any:
        """The array as the zarr library reads it, from a store that knows what its chunks are."""
        where, store = self._where(name), self._store()
        with explained(where):
            node = open_node(store, self.uri)
            array = node[name] if hasattr(node, "array_keys") else node
            meta = parsed_meta(array.metadata.to_dict(), where)
        check_codecs(meta.codecs, chunk_bytes(meta), where)
        store.of(meta, where)
        return array

    def _check_name(self, name: str) -> None:
        names = self.names()
        if name not in names:
            raise ArrayMissing(f"{self.uri}: there is no array {name!r}.{suggestion(name, names)}")

    def _where(self, name: str) -> str:
        return f"{self.uri}: the array {name!r}"

    def _convert_line(self) -> str:
        stem = self.uri.rstrip("/").rpartition("/")[2].split(".")[0]
        return f"ttf data convert {shlex.quote(self.uri)} {shlex.quote(stem)}-stored.npz"
