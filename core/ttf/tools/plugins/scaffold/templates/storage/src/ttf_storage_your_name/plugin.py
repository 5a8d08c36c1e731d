"""What ttf imports of this package: the storage's name, and which files are its own.

ttf imports this module whenever a file ends in .your-name: it imports the standard library and
`ttf` alone. numpy and your library are imported by `_reader` and `_writer`.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from ttf import Availability, ConfigError, NoOptions, hookimpl

if TYPE_CHECKING:
    from ttf import StorageFactory, Store, StoreWriter

LIBRARIES = ("numpy",)
"""What `_reader` and `_writer` import. YOUR LIBRARY: add its module."""


class YourNameStorage:
    """A folder with a .npy file for each array, mapped where it lies."""

    name = "your-name"
    options_type: type[Any] = NoOptions
    suffixes: tuple[str, ...] = (".your-name",)
    """The first is the name: by it ttf finds the storage without importing anything."""

    def availability(self) -> Availability:
        for library in LIBRARIES:
            if importlib.util.find_spec(library) is None:
                return Availability(
                    ok=False, reason=f"{library} is not installed", fix=f"pip install {library}"
                )
        return Availability(ok=True)

    def claims(self, uri: str) -> bool:
        return uri.rstrip("/").lower().endswith(self.suffixes)

    def open(self, uri: str) -> Store:
        from ._reader import YourNameStore

        return YourNameStore(_local(uri))

    def create(self, uri: str) -> StoreWriter:
        from ._writer import YourNameWriter

        return YourNameWriter(_local(uri))


def _local(uri: str) -> str:
    if "://" in uri:
        raise ConfigError(
            f"{uri}: this storage maps files, so it can read only files of this machine.",
            hint="Copy the folder to a local path.",
        )
    return uri


@hookimpl
def ttf_storage(name: str) -> StorageFactory | None:
    factory = YourNameStorage()
    return factory if name == factory.name else None
