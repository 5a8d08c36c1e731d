"""An open zarr group. Each array is read directly if possible, else with the zarr library."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import ArrayMissing, BadData, DataChanged, DType, TtfError, suggestion
from ttf_storage._mapped import FileIdentity, check_identity
from ttf_storage._stored_rows import Stream, described
from ttf_storage._zarr_codecs import check_codecs
from ttf_storage._zarr_files import ChunkFile, chunk_bytes, chunk_files
from ttf_storage._zarr_indirect import (
    IndirectRows,
    explained,
    look_for_missing,
    metadata_of,
    open_node,
    open_store,
)
from ttf_storage._zarr_meta import ArrayMeta, contract_dtype, find_arrays, parsed_meta, read_meta
from ttf_storage._zarr_missing import Missing
from ttf_storage._zarr_rows import DirectRows, files_digest
from ttf_storage._zarr_text import read_text

if TYPE_CHECKING:
    from ttf_storage._zarr_checked_store import CheckedStore

# With more files, listing them all costs more than reading with zarr.
_MOST_MAPPED_FILES: Final = 20_000
_BLOCK_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class _Opened:
    source: DirectRows | IndirectRows
    files: list[ChunkFile]
    absent: list[Path]


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
        self._opened: dict[str, _Opened] = {}
        self._say: Callable[[str], None] | None = None  # None: missing chunks are refused
        self._said: set[str] = set()
        if self._root is None:
            try:
                self._zarr_node()
            except BaseException:
                self.close()
                raise

    def fill_missing(self, say: Callable[[str], None]) -> None:
        """Reads chunks that do not exist as the fill value, from the next array that is opened."""
        self._say = say

    def names(self) -> list[str]:
        if self._root is not None:
            return list(self._folders)
        node = self._zarr_node()
        if not hasattr(node, "array_keys"):
            return ["vectors"]
        with metadata_of(self.uri):
            return sorted(node.array_keys())

    def source(self, name: str) -> DirectRows | IndirectRows:
        self._check_name(name)
        if name not in self._opened:
            self._opened[name] = self._open(name)
        return self._opened[name].source

    def text(self, name: str) -> NDArray[np.str_]:
        """Returns the strings of an array of one dimension."""
        self._check_name(name)
        array, meta = self._whole_array(name)
        with explained(self._where(name)):
            return read_text(array, meta, self._where(name))

    def describe(self, name: str) -> Mapping[str, Any]:
        self._check_name(name)
        return described(
            lambda: self._declared(name), lambda: self.source(name), stored="zarr", size=0
        )

    def stream(self, name: str, block_bytes: int = _BLOCK_BYTES) -> Stream:
        """Streams any array of plain numbers through zarr."""
        self._check_name(name)
        where = self._where(name)
        array, meta = self._whole_array(name)
        dtype = np.dtype(array.dtype)
        if dtype.kind not in "fiub" or not array.shape:
            raise BadData(
                f"{where} has the type {meta.dtype} and the shape {tuple(array.shape)}, but it "
                "must be rows of numbers."
            )
        shape = tuple(array.shape)
        row_bytes = max(1, int(np.prod(shape[1:])) * dtype.itemsize)
        step = max(1, block_bytes // row_bytes)

        def blocks() -> Iterator[NDArray[Any]]:
            for start in range(0, shape[0], step):
                with explained(where):
                    block = np.asarray(array[start : start + step])
                yield block

        return Stream(shape, dtype, meta.marker, blocks())

    def check_unchanged(self) -> None:
        """Does not check remote stores: they have no local files."""
        if self._archive is not None:
            check_identity(Path(self.uri), self._archive)
        for opened in self._opened.values():
            for file in opened.files:
                check_identity(file.path, file.identity)
            for path in opened.absent:
                if path.exists():
                    raise DataChanged(
                        f"{path} did not exist when it was first needed, but now does."
                    )

    def verify(self) -> Iterator[str]:
        for name in self.names():
            try:
                if self._meta(name).is_text:
                    self.text(name)
                    continue
                source = self.source(name)
                row_bytes = max(1, int(np.prod(source.shape[1:])) * 8)
                step = max(1, _BLOCK_BYTES // row_bytes)
                for start in range(0, source.shape[0], step):
                    source.read(start, min(start + step, source.shape[0])).sum()
            except TtfError as error:
                yield str(error)

    def close(self) -> None:
        for opened in self._opened.values():
            if isinstance(opened.source, DirectRows):
                opened.source.close()
        self._node = None
        for store in self._stores:
            store.close()
        self._stores.clear()

    # -- how an array is opened

    def _open(self, name: str) -> _Opened:
        meta = self._meta(name)
        dtype = self._dtype(meta, self._where(name))
        if self._root is None:
            array, _, digest = self._zarr_array(name)
            return _Opened(IndirectRows(name, self.uri, array, dtype, digest), [], [])
        files, missing = self._files(name, meta)
        as_stored = dtype in (meta.dtype, "bfloat16")
        whole = not missing.count and len(files) <= _MOST_MAPPED_FILES
        if as_stored and meta.by_rows and whole:
            return _Opened(DirectRows(name, self.uri, meta, dtype, files), files, [])
        array, _, _ = self._zarr_array(name)
        digest = functools.partial(files_digest, meta, files, missing.files)
        rows = IndirectRows(name, self.uri, array, dtype, digest)
        return _Opened(rows, files, [self._folders[name] / key for key in missing.files])

    def _meta(self, name: str) -> ArrayMeta:
        if self._root is not None:
            return read_meta(self._folders[name], self._root, self._where(name))
        return self._parsed(self._node_of(name, self._zarr_node()), self._where(name))

    def _files(self, name: str, meta: ArrayMeta) -> tuple[list[ChunkFile], Missing]:
        where = self._where(name)
        missing = Missing(meta, where, self._convert_line())
        files = chunk_files(self._folders[name], meta, missing, where)
        self._refuse_or_say(name, missing)
        return files, missing

    def _refuse_or_say(self, name: str, missing: Missing) -> None:
        if self._say is None:
            missing.refuse()
        elif missing.count and name not in self._said:
            self._said.add(name)
            self._say(missing.remark())

    def _dtype(self, meta: ArrayMeta, where: str) -> DType:
        dtype = contract_dtype(meta.dtype, meta.marker, where, self._convert_line())
        if not meta.shape:
            raise BadData(f"{where} is a single number, but it must have rows.")
        return dtype

    def _declared(self, name: str) -> dict[str, Any]:
        meta = self._meta(name)
        known = {"shape": list(meta.shape), "dtype": meta.marker or meta.dtype}
        if self._root is None:
            with explained(self._where(name)):
                size = int(self._node_of(name, self._zarr_node()).nbytes_stored())
            return known | {"bytes": size}
        size = sum(p.stat().st_size for p in self._folders[name].rglob("*") if p.is_file())
        return known | {"stored": meta.stored, "bytes": size}

    def _zarr_node(self) -> Any:
        if self._node is None:
            self._node = open_node(self._store(), self.uri)
        return self._node

    def _store(self) -> CheckedStore:
        self._stores.append(open_store(self.uri))
        return self._stores[-1]

    def _zarr_array(self, name: str) -> tuple[Any, ArrayMeta, Callable[[], str] | None]:
        """The array as the zarr library reads it, from a store that knows what its chunks are; its
        metadata; and, of a zip file, what computes a digest of it."""
        where, store = self._where(name), self._store()
        node = open_node(store, self.uri)
        array = self._node_of(name, node)
        meta = self._parsed(array, where)
        check_codecs(meta.codecs, chunk_bytes(meta), where)
        missing = Missing(meta, where, self._convert_line())
        folders = [store.root, "" if array is node else name]
        prefix = "".join(f"{folder}/" for folder in folders if folder)
        store.of(meta, where, prefix, missing if self._say is None else None)
        if self._root is not None:
            return array, meta, None
        with explained(where):
            look_for_missing(array, store, missing, where)
        self._refuse_or_say(name, missing)
        archive = store.archive
        digest = None if archive is None else functools.partial(archive.digest, prefix)
        return array, meta, digest

    def _whole_array(self, name: str) -> tuple[Any, ArrayMeta]:
        array, meta, _ = self._zarr_array(name)
        if self._root is not None:
            self._files(name, meta)
        return array, meta

    def _node_of(self, name: str, node: Any) -> Any:
        """An array of a group, or the single array of a store."""
        with metadata_of(self._where(name)):
            return node[name] if hasattr(node, "array_keys") else node

    def _parsed(self, array: Any, where: str) -> ArrayMeta:
        with metadata_of(where):
            return parsed_meta(array.metadata.to_dict(), where)

    def _check_name(self, name: str) -> None:
        names = self.names()
        if name not in names:
            raise ArrayMissing(f"{self.uri}: there is no array {name!r}.{suggestion(name, names)}")

    def _where(self, name: str) -> str:
        return f"{self.uri}: the array {name!r}"

    def _convert_line(self) -> str:
        stem = self.uri.rstrip("/").rpartition("/")[2].split(".")[0]
        return f"ttf data convert {shlex.quote(self.uri)} {shlex.quote(stem)}-stored.npz"
