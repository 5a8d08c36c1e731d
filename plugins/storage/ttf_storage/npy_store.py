"""`.npy` files and folders of them, mapped where they lie: one file per array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ttf import Availability, ConfigError, NoOptions, StorageFactory, Store, StoreWriter, hookimpl


class NpyStorage:
    """A file holds the array `vectors`; in a folder, a file's name is the name of its array."""

    name = "npy"
    options_type: type[Any] = NoOptions
    suffixes: tuple[str, ...] = (".npy",)

    def availability(self) -> Availability:
        return Availability(ok=True)

    def claims(self, uri: str) -> bool:
        return uri.lower().endswith(self.suffixes) or is_npy_folder(uri)

    def open(self, uri: str) -> Store:
        if "://" in uri:
            raise ConfigError(
                f"{uri}: .npy files must be local files, because ttf maps them into memory.",
                hint="Download the file, or convert it to a folder of shards, which ttf can also read "
                "from URLs: ttf data convert FILE OUT.objects",
            )
        if is_npy_folder(uri):
            from ttf_storage._npy_folder import NpyFolder

            return NpyFolder(uri)
        from ttf_storage._npz_reader import NpzStore

        return NpzStore(uri)

    def create(self, uri: str) -> StoreWriter:
        if "://" in uri or is_npy_folder(uri):
            what = "a URL" if "://" in uri else "a folder of .npy files"
            raise ConfigError(
                f"{uri} is {what}, which ttf only reads.",
                hint="Choose an output that ends in .npz or .npy.",
            )
        from ttf_storage._npz_writer import NpyWriter

        return NpyWriter(uri)


def is_npy_folder(uri: str) -> bool:
    """Whether the uri is a local folder with .npy files."""
    path = Path(uri)
    return "://" not in uri and path.is_dir() and any(True for _ in path.glob("[!.]*.npy"))


@hookimpl
def ttf_storage(name: str) -> StorageFactory | None:
    return NpyStorage() if name == NpyStorage.name else None
