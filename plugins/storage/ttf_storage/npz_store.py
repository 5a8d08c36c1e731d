"""`.npz` files, mapped where they lie, and an aligned streaming writer."""

from __future__ import annotations

from typing import Any

from ttf import Availability, ConfigError, NoOptions, StorageFactory, Store, StoreWriter, hookimpl


class NpzStorage:
    """Needs numpy alone; nothing is ever unpickled."""

    name = "npz"
    options_type: type[Any] = NoOptions
    suffixes: tuple[str, ...] = (".npz",)

    def availability(self) -> Availability:
        return Availability(ok=True)

    def claims(self, uri: str) -> bool:
        return uri.lower().endswith(self.suffixes)

    def open(self, uri: str) -> Store:
        if "://" in uri:
            raise ConfigError(
                f"{uri}: .npz and .npy files must be local files, because ttf maps them into "
                "memory.",
                hint="Download the file, or convert it to a folder of shards, which ttf can also read "
                "from URLs: ttf data convert FILE OUT.objects",
            )
        from ttf_storage.npy_store import NpyStorage, is_npy_folder

        if is_npy_folder(uri):  # of a configuration that is older than the storage `npy`
            return NpyStorage().open(uri)
        from ttf_storage._npz_reader import NpzStore

        return NpzStore(uri)

    def create(self, uri: str) -> StoreWriter:
        if "://" in uri:
            raise ConfigError(
                f"{uri}: .npz and .npy files can be written only to local paths, not to URLs.",
                hint="Write a local file, then upload it.",
            )
        from ttf_storage._npz_writer import NpzWriter
        from ttf_storage.npy_store import NpyStorage

        return NpyStorage().create(uri) if uri.lower().endswith(".npy") else NpzWriter(uri)


@hookimpl
def ttf_storage(name: str) -> StorageFactory | None:
    return NpzStorage() if name == NpzStorage.name else None
