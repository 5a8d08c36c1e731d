"""An open container: a file whose columns are arrays, or a folder of files of one array each."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ttf import ArrayMissing, BadData, TtfError

from ttf_storage_parquet._file import ParquetFile, column_bytes
from ttf_storage_parquet._rows import ParquetRows


class ParquetStore:
    """`ttf.Store`; the files stay open until `close`."""

    container = "parquet"

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._files: list[ParquetFile] = []
        self._sources: dict[str, ParquetRows] = {}
        try:
            self._arrays = self._opened(Path(uri))
        except BaseException:
            self.close()
            raise

    def names(self) -> list[str]:
        return list(self._arrays)

    def source(self, name: str) -> ParquetRows:
        if name not in self._sources:
            self._sources[name] = ParquetRows(self._file_of(name), name)
        return self._sources[name]

    def describe(self, name: str) -> Mapping[str, Any]:
        size, stored = column_bytes(self._file_of(name).metadata, name)
        facts: dict[str, Any] = {
            "shape": None,
            "dtype": None,
            "stored": stored,
            "mappable": False,
            "aligned": False,
            "bytes": size,
            "problem": None,
        }
        try:
            source = self.source(name)
        except TtfError as error:
            return facts | {"problem": str(error)}
        return facts | {"shape": list(source.shape), "dtype": source.dtype}

    def check_unchanged(self) -> None:
        for file in self._files:
            file.check_unchanged()

    def verify(self) -> Iterator[str]:
        for name in self._arrays:
            try:
                yield from self.source(name).verify()
            except TtfError as error:
                yield str(error)

    def close(self) -> None:
        for source in self._sources.values():
            source.forget()
        for file in self._files:
            file.close()

    def _opened(self, path: Path) -> dict[str, ParquetFile]:
        if not path.is_dir():
            file = self._open(path)
            return dict.fromkeys(file.schema.names, file)
        arrays = {}
        for part in sorted(path.glob("*.parquet")):
            file = self._open(part)
            if file.schema.names != [part.stem]:
                raise BadData(
                    f"{part} holds the columns {', '.join(file.schema.names)}: in a folder each "
                    f"file is one array, a column of the file's name ({part.stem!r}).",
                    hint="Write the parts of one table as one file, and name that.",
                )
            arrays[part.stem] = file
        if not arrays:
            raise BadData(f"{path} is a folder without Parquet files.", hint="Check the path.")
        return arrays

    def _open(self, path: Path) -> ParquetFile:
        file = ParquetFile(path)
        self._files.append(file)
        return file

    def _file_of(self, name: str) -> ParquetFile:
        if name in self._arrays:
            return self._arrays[name]
        close = difflib.get_close_matches(name, self._arrays, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        raise ArrayMissing(
            f"{self.uri}: there is no array {name!r}.{meant} Known: {', '.join(self._arrays)}."
        )
