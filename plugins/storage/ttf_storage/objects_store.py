"""Directories of immutable shards with a manifest of hashes: in an object store, behind HTTP, or here.

Shards of an address are fetched once to the cache of this machine, then mapped. obstore is needed to
fetch; a local folder, and shards that are in the cache, are read without it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Final

from ttf import Availability, ConfigError, NoOptions, StorageFactory, Store, StoreWriter, hookimpl

INSTALL: Final = 'pip install "twotower[objects]"'
MANIFEST: Final = "objects.json"
SCHEMES: Final = ("s3", "gs", "http", "https")


class ObjectsStorage:
    """`bank.objects` here, `s3://bucket/bank`, `gs://...`, `https://...`."""

    name = "objects"
    options_type: type[Any] = NoOptions
    suffixes: tuple[str, ...] = (".objects",)

    def availability(self) -> Availability:
        if importlib.util.find_spec("obstore") is not None:
            return Availability(ok=True)
        reason = "obstore is not installed, so only folders of this machine can be read"
        return Availability(ok=True, reason=reason, fix=INSTALL)

    def claims(self, uri: str) -> bool:
        if "://" in uri:
            return uri.partition("://")[0].lower() in SCHEMES
        return uri.rstrip("/").lower().endswith(self.suffixes) or (Path(uri) / MANIFEST).is_file()

    def open(self, uri: str) -> Store:
        from ttf_storage._objects_reader import ObjectsStore

        return ObjectsStore(uri)

    def create(self, uri: str) -> StoreWriter:
        if "://" in uri:
            raise ConfigError(
                f"{uri.partition('#')[0]}: ttf writes such a folder on this machine only.",
                hint="Write OUT.objects, then upload the folder with your own tool, "
                f"{MANIFEST} last.",
            )
        from ttf_storage._objects_writer import ObjectsWriter

        return ObjectsWriter(uri)


@hookimpl
def ttf_storage(name: str) -> StorageFactory | None:
    return ObjectsStorage() if name == ObjectsStorage.name else None
