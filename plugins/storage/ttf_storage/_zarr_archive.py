"""The members of a zarr store in a zip file, opened with limits."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Final

from ttf import BadData, TtfError, open_named
from ttf_storage._zip_format import BOUNDED, refuse_outside
from ttf_storage.zarr_store import MARKS

# To read the end of a deflated member, all of it is inflated.
_MOST_DEFLATED_BYTES: Final = 512 << 20


class Archive:
    """A local zip file. Nothing is extracted: keys are looked up as the names that they are.

    `root`: the folder of the zip file that the store is in, if somebody zipped it with its folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open_named(path)  # refuses a pipe
        try:
            self._zip = zipfile.ZipFile(self._file)
            refuse_outside(path, self._zip.NameToInfo)
        except BaseException:
            self._file.close()
            raise
        self.root = _root(self._zip.NameToInfo) or ""

    def has(self, key: str) -> bool:
        return key in self._zip.NameToInfo

    def open(self, key: str) -> tuple[int, IO[bytes]]:
        """The size of a member and its bytes: never more than the size that the archive says,
        whatever is in it. Raises KeyError if there is none."""
        member = self._zip.getinfo(key)
        deflated = member.compress_type != zipfile.ZIP_STORED
        if member.compress_type not in BOUNDED or member.flag_bits & 0x1:
            raise self._refused(key, "is encrypted or compressed with another method than deflate")
        if deflated and member.file_size > _MOST_DEFLATED_BYTES:
            raise self._refused(
                key, f"is compressed in the zip file and has {member.file_size >> 20:,} MB"
            )
        return member.file_size, self._zip.open(member)

    def digest(self, prefix: str) -> str:
        """Of all members of an array, from their sizes and checksums."""
        digest = hashlib.blake2b(digest_size=16)
        for member in sorted(self._zip.infolist(), key=lambda m: m.filename):
            if member.filename.startswith(prefix):
                digest.update(f"{member.filename}:{member.file_size}:{member.CRC};".encode())
        return digest.hexdigest()

    def close(self) -> None:
        self._zip.close()
        self._file.close()

    def _refused(self, key: str, why: str) -> BadData:
        return BadData(
            f"{self._path}: {key} {why}.",
            hint="Zip the store without compression: its chunks already have their own.",
        )


def root_of(path: Path) -> str | None:
    """The folder of a zip file in which a zarr store begins; None if there is no store in it."""
    try:
        with open_named(path) as file, zipfile.ZipFile(file) as archive:
            return _root(archive.NameToInfo)
    except (OSError, TtfError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return None


def _root(names: Iterable[str]) -> str | None:
    folders = {name.rpartition("/")[0] for name in names if name.rpartition("/")[2] in MARKS}
    if "" in folders:
        return ""
    top = {folder for folder in folders if "/" not in folder and folder not in (".", "..")}
    return top.pop() if len(top) == 1 else None
