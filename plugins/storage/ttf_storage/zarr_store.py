"""Zarr groups: uncompressed local arrays are mapped, everything else is read through zarr.

The zarr library is needed for compressed arrays, other chunkings and remote stores; uncompressed
local arrays are read and written without it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from ttf import Availability, ConfigError, NoOptions, StorageFactory, Store, StoreWriter, hookimpl

INSTALL = 'pip install "twotower[zarr]"'
MARKS = ("zarr.json", ".zgroup", ".zarray")  # files in the folder of a group or an array


class ZarrStorage:
    """v3 and v2, folders, zip files and whatever URL zarr can open."""

    name = "zarr"
    options_type: type[Any] = NoOptions
    suffixes: tuple[str, ...] = (".zarr", ".zarr.zip")

    def availability(self) -> Availability:
        if importlib.util.find_spec("zarr") is not None:
            return Availability(ok=True)
        reason = "the zarr library is not installed, so only uncompressed local arrays can be read"
        return Availability(ok=True, reason=reason, fix=INSTALL)

    def claims(self, uri: str) -> bool:
        if uri.rstrip("/").lower().endswith(self.suffixes):
            return True
        if "://" in uri:
            return False
        if uri.lower().endswith(".zip"):
            from ttf_storage._zarr_archive import root_of

            return root_of(Path(uri)) is not None
        return any((Path(uri) / mark).is_file() for mark in MARKS)

    def open(self, uri: str) -> Store:
        from ttf_storage._zarr_reader import ZarrStore

        return ZarrStore(uri)

    def create(self, uri: str) -> StoreWriter:
        if "://" in uri or uri.rstrip("/").lower().endswith(".zarr.zip"):
            raise ConfigError(
                f"{uri}: ttf can read zip files and URLs, but a zarr group can be written only as a "
                "local folder.",
                hint="Write a folder that ends in .zarr, then zip or upload it.",
            )
        from ttf_storage._zarr_writer import ZarrWriter

        return ZarrWriter(uri)


@hookimpl
def ttf_storage(name: str) -> StorageFactory | None:
    return ZarrStorage() if name == ZarrStorage.name else None
