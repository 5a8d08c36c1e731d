"""The storage `parquet`. Light: what asks for its name imports the standard library and `ttf`."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from ttf import Availability, ConfigError, NoOptions, hookimpl

if TYPE_CHECKING:
    from ttf import StorageFactory, Store, StoreWriter


class ParquetStorage:
    """Files, and folders of files, with the ending .parquet."""

    name = "parquet"
    options_type: type[Any] = NoOptions
    suffixes: tuple[str, ...] = (".parquet",)

    def availability(self) -> Availability:
        if importlib.util.find_spec("pyarrow") is None:
            return Availability(
                ok=False, reason="pyarrow is not installed", fix="pip install pyarrow"
            )
        return Availability(ok=True)

    def claims(self, uri: str) -> bool:
        return uri.rstrip("/").lower().endswith(self.suffixes)

    def open(self, uri: str) -> Store:
        from ttf_storage_parquet._store import ParquetStore

        return ParquetStore(_local(uri))

    def create(self, uri: str) -> StoreWriter:
        from ttf_storage_parquet._writer import ParquetWriter

        return ParquetWriter(_local(uri))


def _local(uri: str) -> str:
    if "://" in uri:
        raise ConfigError(f"{uri}: only local files are read and written.", hint="Copy it here.")
    return uri


@hookimpl
def ttf_storage(name: str) -> StorageFactory | None:
    return ParquetStorage() if name == "parquet" else None
