"""`.safetensors` files, mapped where they lie. Needs no library: the format is a header and bytes."""

from __future__ import annotations

from typing import Any

from ttf import Availability, ConfigError, NoOptions, StorageFactory, Store, StoreWriter, hookimpl


class SafetensorsStorage:
    """Each tensor is an array, bfloat16 included."""

    name = "safetensors"
    options_type: type[Any] = NoOptions
    suffixes: tuple[str, ...] = (".safetensors",)

    def availability(self) -> Availability:
        return Availability(ok=True)

    def claims(self, uri: str) -> bool:
        return uri.lower().endswith(self.suffixes)

    def open(self, uri: str) -> Store:
        _refuse_url(uri)
        from ttf_storage._safetensors import SafetensorsStore

        return SafetensorsStore(uri)

    def create(self, uri: str) -> StoreWriter:
        _refuse_url(uri)
        from ttf_storage._safetensors import SafetensorsWriter

        return SafetensorsWriter(uri)


def _refuse_url(uri: str) -> None:
    if "://" in uri:
        raise ConfigError(
            f"{uri}: .safetensors files must be local files, because ttf maps them into memory.",
            hint="Download the file, or convert it to a folder of shards, which ttf can also read "
            "from URLs: ttf data convert FILE OUT.objects",
        )


@hookimpl
def ttf_storage(name: str) -> StorageFactory | None:
    return SafetensorsStorage() if name == SafetensorsStorage.name else None
