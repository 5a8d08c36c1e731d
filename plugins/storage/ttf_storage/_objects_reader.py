"""An open folder of shards: its manifest, and a source for each array."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import ArrayMissing, BadData, Fetching, TtfError, open_named, suggestion
from ttf_storage._mapped import FileIdentity, check_identity, unreadable
from ttf_storage._npy_header import decoded
from ttf_storage._objects_manifest import ArrayEntry, ShardEntry, content_sha256, parsed
from ttf_storage._objects_rows import ObjectRows
from ttf_storage._objects_shards import CachedFolder, LocalFolder, Place
from ttf_storage._stored_rows import described
from ttf_storage.objects_store import MANIFEST

_BLOCK_BYTES: Final = 4 << 20
_MOST_TEXT_BYTES: Final = 512 << 20


class ObjectsStore:
    """Opening reads the manifest alone."""

    container = "objects"
    # Those of the manifest are part of every fingerprint, and compared by `verify`.
    has_checksums = True

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._place: Place = LocalFolder(uri) if "://" not in uri else CachedFolder(uri)
        self._sources: dict[str, ObjectRows] = {}
        self._how = Fetching()
        try:
            self._arrays = parsed(self._place.manifest(), f"{uri.rstrip('/')}/{MANIFEST}")
            self._manifest_file = self._identity_of_manifest()
        except BaseException:
            self.close()
            raise

    def fetch_as(self, how: Fetching) -> None:
        self._how = how

    @property
    def pinned(self) -> str:
        """The address with the hash of the manifest."""
        return self._place.pinned

    @cached_property
    def content_sha256(self) -> str:
        return "" if self._place.is_local else content_sha256(self._arrays)

    @property
    def content_bytes(self) -> int:
        return sum(entry.num_bytes for entry in self._arrays.values())

    def names(self) -> list[str]:
        return list(self._arrays)

    def source(self, name: str) -> ObjectRows:
        entry = self._entry(name)
        if entry.is_text:
            raise BadData(f"{self._where(name)} holds strings, but it must be rows of numbers.")
        if name not in self._sources:
            if self._place.is_local:  # the sizes of all its files are compared
                self._place.bring(entry.shards, self._how)
            self._sources[name] = ObjectRows(self.uri, entry, self._place, lambda: self._how)
        return self._sources[name]

    def text(self, name: str) -> NDArray[np.str_]:
        """Returns the strings of an array of one dimension."""
        entry = self._entry(name)
        if not entry.is_text or entry.num_bytes > _MOST_TEXT_BYTES:
            raise BadData(
                f"{self._where(name)} is {entry.dtype} {entry.shape}, but it must be at most "
                f"{_MOST_TEXT_BYTES >> 20} MB of strings."
            )
        self._place.bring(entry.shards, self._how)
        content = b"".join(b"".join(self._blocks(shard)) for shard in entry.shards)
        return decoded(content, entry.held, self._where(name))

    def describe(self, name: str) -> Mapping[str, Any]:
        entry = self._entry(name)
        known = {"shape": list(entry.shape), "dtype": entry.dtype}
        if entry.is_text:
            return {
                **known,
                "stored": "stored",
                "mappable": True,
                "aligned": True,
                "bytes": entry.num_bytes,
                "problem": None,
            }
        return described(
            lambda: known, lambda: self.source(name), stored="stored", size=entry.num_bytes
        )

    def check_unchanged(self) -> None:
        if self._manifest_file is not None:
            check_identity(Path(self.uri) / MANIFEST, self._manifest_file)
        for source in self._sources.values():
            source.check_unchanged()

    def verify(self) -> Iterator[str]:
        """Fetches what is missing; compares every shard on this machine with both of its hashes."""
        for entry in self._arrays.values():
            for number, shard in enumerate(entry.shards):
                try:
                    self._place.bring([shard], self._how)
                    yield from self._problems(entry, number)
                except TtfError as error:
                    yield str(error)

    def close(self) -> None:
        for source in self._sources.values():
            source.close()
        self._place.close()

    def _problems(self, entry: ArrayEntry, number: int) -> Iterator[str]:
        shard, path = entry.shards[number], self._place.path(entry.shards[number])
        digest, crc = hashlib.sha256(), entry.crc_before(number)
        for block in self._blocks(shard):
            digest.update(block)
            crc = zlib.crc32(block, crc)
        if digest.hexdigest() != shard.sha256:
            copy = "" if self._place.is_local else " To fetch it again: ttf cache clear objects."
            yield (
                f"{path} is damaged: its SHA-256 is {digest.hexdigest()[:16]}..., but it should be "
                f"{shard.sha256[:16]}...{copy}"
            )
        elif crc != shard.crc32:
            yield (
                f"{self._place.address(shard)}: the manifest says that the checksum is "
                f"{shard.crc32:08x}, but it is {crc:08x}."
            )

    def _blocks(self, shard: ShardEntry) -> Iterator[bytes]:
        path = self._place.path(shard)
        try:
            with open_named(path) as file:
                while block := file.read(_BLOCK_BYTES):
                    yield block
        except OSError as error:
            raise unreadable(path, error) from error

    def _identity_of_manifest(self) -> FileIdentity | None:
        return FileIdentity.of(Path(self.uri) / MANIFEST) if self._place.is_local else None

    def _entry(self, name: str) -> ArrayEntry:
        entry = self._arrays.get(name)
        if entry is None:
            raise ArrayMissing(
                f"{self.uri}: there is no array {name!r}.{suggestion(name, self._arrays)}"
            )
        return entry

    def _where(self, name: str) -> str:
        return f"{self.uri}: the array {name!r}"
