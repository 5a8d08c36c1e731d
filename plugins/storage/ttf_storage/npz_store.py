"""`.npz` and `.npy` files and folders of `.npy` files, mapped where they lie, and an aligned streaming writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ttf import Availability, ConfigError, NoOptions, StorageFactory, Store, StoreWriter, hookimpl


class NpzStorage:
    """Needs numpy alone; nothing is ever unpickled."""

    name = "npz"
    options_type: type[Any] = NoOptions
    suffixes: tuple[str, ...] = (".npz", ".npy")

    def availability(self) -> Availability:
        return Availability(ok=True)

    def claims(self, uri: str) -> bool:
        return uri.lower().endswith(self.suffixes) or _is_npy_folder(uri)

    def open(self, uri: str) -> Store:
        if "://" in uri:
            raise ConfigError(
                f"{uri}: .npz and .npy files must be local files, because ttf maps them into "
                "memory.",
                hint=(
                    "Download the file, or store the vectors as .zarr, which ttf can also "
                    "read from URLs."
                ),
            )
        if _is_npy_folder(uri):
            from ttf_storage._npy_folder import NpyFolder

            return NpyFolder(uri)
        from ttf_storage._npz_reader import NpzStore

        return NpzStore(uri)

    def create(self, uri: str) -> StoreWriter:
        if "://" in uri:
            raise ConfigError(
                f"{uri}: .npz and .npy files can be written only to local paths, not to URLs.",
                hint="Write a local file, then upload it.",
            )
        if _is_npy_folder(uri):
            raise ConfigError(
                f"{uri} is a folder of .npy files, which ttf only reads.",
                hint="Choose an output that ends in .npz.",
            )
        from ttf_storage._npz_writer import NpyWriter, NpzWriter

        return NpyWriter(uri) if uri.lower().endswith(".npy") else NpzWriter(uri)


def _is_npy_folder(uri: str) -> bool:
    """Whether the uri is a local folder with .npy files."""
    path = Path(uri)
    return "://" not in uri and path.is_dir() and any(True for _ in path.glob("[!.]*.npy"))


@hookimpl
def ttf_storage(name: str) -> StorageFactory | None:
    return NpzStorage() if name == NpzStorage.name else None
