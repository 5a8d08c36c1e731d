"""From a path or URL to an open container: which storage plugin's it is."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from ttf.errors import ConfigError, DataMissing
from ttf.host import plugins

if TYPE_CHECKING:
    from ttf.contracts import StorageFactory, Store, StoreWriter


_OUTPUT_HINT: Final = (
    "Name the output with a known ending, e.g. .npz; ttf data convert also has --to-storage NAME."
)


def storage_for(uri: str, storage: str = "auto", *, output: bool = False) -> str:
    """The name of the storage plugin for a uri; ConfigError where none claims it.

    Ours are asked; one of somebody else is the uri's where its name is the ending (`parquet` for
    `bank.parquet`): nothing is imported to find that out. `output`: the message is about a file to
    write, for which `--storage` is no help.
    """
    if storage != "auto":
        plugins.find("storage", storage)
        return storage
    factories = [_loaded(name) for name in plugins.ours("storage")]
    for factory in factories:
        if factory.claims(uri):
            return factory.name
    strangers = sorted({p.name for p in plugins.of_kind("storage") if not p.ours}, key=len)
    file = uri.rstrip("/").lower()
    for name in reversed(strangers):  # zarr.gz before gz
        if file.endswith(f".{name}") and _loaded(name).claims(uri):
            return name
    endings = {ending for factory in factories for ending in factory.suffixes}
    known = sorted(endings | {f".{name}" for name in strangers})
    verb = "write" if output else "read"
    raise ConfigError(
        f"{uri}: no storage plugin {verb}s files with this ending; "
        f"known endings: {', '.join(known) or 'none'}.",
        hint=_OUTPUT_HINT if output else "Name the plugin with --storage, or rename the file.",
    )


def _loaded(name: str) -> StorageFactory:
    return cast("StorageFactory", plugins.load("storage", name))


def open_store(uri: str, storage: str = "auto") -> Store:
    """Opens a container for reading; DataMissing, with the nearest names, if it is not there."""
    name = storage_for(uri, storage)
    if is_local(uri) and not Path(uri).exists():
        raise _missing(Path(uri))
    return plugins.storage(name).open(uri)


def create_store(uri: str, storage: str = "auto") -> StoreWriter:
    """Starts a new container; nothing is visible at the uri before `commit`."""
    return plugins.storage(storage_for(uri, storage, output=True)).create(uri)


def is_local(uri: str) -> bool:
    """A path of this machine rather than a URL such as s3://bucket/bank.zarr.

    >>> is_local("data/bank.npz"), is_local("s3://bucket/bank.zarr")
    (True, False)
    """
    return "://" not in uri


def _missing(path: Path) -> DataMissing:
    folder = path.parent
    if not folder.is_dir():
        return DataMissing(
            f"{path}: there is no such file, nor the folder {folder}.", hint="Check the path."
        )
    there = sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))
    close = difflib.get_close_matches(path.name, there, n=3, cutoff=0.5)
    alike = [n for n in there if Path(n).suffix == path.suffix and n not in close]
    near = [*close, *alike][:5]
    found = f" In that folder: {', '.join(near)}." if near else ""
    return DataMissing(f"{path}: there is no such file.{found}", hint="Check the path.")
