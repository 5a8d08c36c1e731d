"""Blocks of vectors as files, each whole, before their turn comes: `queries-4096-9f31a2c0.block`.

The name has the kind, the first row and the CRC-32 of the content: the rows, then a byte for each
text that was cut.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttf.errors import ArtifactDamaged
from ttf.rundir.confined import names_in, read_inside
from ttf.rundir.durable import write_atomically
from ttf.rundir.removing import remove_if_there

_NAME: Final = re.compile(r"(documents|queries|passages)-(\d{1,18})-([0-9a-f]{8})\.block")
_AREA: Final = "encode"


class Block(NamedTuple):
    kind: str
    first: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class Form:
    """Of the vectors."""

    dim: int
    dtype: str

    @property
    def row_bytes(self) -> int:
        return self.dim * np.dtype(self.dtype).itemsize

    def size(self, block: Block) -> int:
        return (block.stop - block.first) * (self.row_bytes + 1)

    def packed(self, rows: NDArray[np.generic], cut: NDArray[np.bool_]) -> bytes:
        return rows.astype(self.dtype, copy=False).tobytes() + cut.tobytes()

    def unpacked(self, data: bytes) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
        count = len(data) // (self.row_bytes + 1)
        rows = np.frombuffer(data[: count * self.row_bytes], self.dtype).reshape(count, self.dim)
        return rows, np.frombuffer(data[count * self.row_bytes :], np.bool_)


@dataclass(frozen=True, kw_only=True)
class LooseBlocks:
    folder: Path
    inside: Path

    def write(self, block: Block, data: bytes) -> str:
        """Its name; durable when this returns. Raises StorageError."""
        name = f"{block.kind}-{block.first}-{zlib.crc32(data):08x}.block"
        write_atomically(self.folder / name, data, _AREA)
        return name

    def names(self) -> dict[tuple[str, int], str]:
        """By kind and first row."""
        found = {}
        for name in names_in(self.folder, self.inside):
            if (match := _NAME.fullmatch(name)) is not None:
                found[match[1], int(match[2])] = name
        return found

    def read(self, name: str, size: int) -> bytes | None:
        """None: it is not what was written."""
        try:
            data = read_inside(self.folder / name, self.inside, size)
        except (OSError, ArtifactDamaged):
            return None
        whole = len(data) == size and name.endswith(f"-{zlib.crc32(data):08x}.block")
        return data if whole else None

    def remove(self, name: str) -> None:
        remove_if_there(self.folder / name, self.inside)
