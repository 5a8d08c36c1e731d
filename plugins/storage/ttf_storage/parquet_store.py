"""Tables of vectors: Parquet files and folders of them, Arrow files and streams (Feather).

A column is an array: numbers, or lists of numbers of one length. Parquet is read with plain reads,
some rows at a time; Arrow files are mapped.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from ttf import Availability, ConfigError, NoOptions, StorageFactory, Store, StoreWriter, hookimpl

INSTALL = 'pip install "twotower[parquet]"'
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")


class ParquetStorage:
    """Reads Parquet and Arrow; writes Parquet."""

    name = "parquet"
    options_type: type[Any] = NoOptions
    suffixes: tuple[str, ...] = (*PARQUET, *ARROW)

    def availability(self) -> Availability:
        if importlib.util.find_spec("pyarrow") is not None:
            return Availability(ok=True)
        return Availability(ok=False, reason="the pyarrow library is not installed", fix=INSTALL)

    def claims(self, uri: str) -> bool:
        if uri.rstrip("/").lower().endswith(self.suffixes):
            return True
        path = Path(uri)
        return "://" not in uri and path.is_dir() and any(path.glob("[!._]*.parquet"))

    def open(self, uri: str) -> Store:
        _refuse_url(uri, "read")
        from ttf_storage._table_store import TableStore

        return TableStore(uri)

    def create(self, uri: str) -> StoreWriter:
        _refuse_url(uri, "written")
        if uri.rstrip("/").lower().endswith(ARROW):
            raise ConfigError(
                f"{uri}: ttf reads Arrow and Feather files, but does not write them.",
                hint="Choose an output that ends in .parquet.",
            )
        from ttf_storage._parquet_writer import ParquetWriter

        return ParquetWriter(uri)


def _refuse_url(uri: str, verb: str) -> None:
    if "://" in uri:
        raise ConfigError(
            f"{uri}: Parquet and Arrow files are {verb} only as local files.",
            hint="Copy the file to this machine first.",
        )


@hookimpl
def ttf_storage(name: str) -> StorageFactory | None:
    return ParquetStorage() if name == ParquetStorage.name else None
