"""Arrays that grow on the disk block by block: who is killed goes on behind the last whole block.

Each array is an ordinary .npy file of its final shape, filled from the top; `blocks.bin` says which
blocks are whole. A block goes into the arrays first and is noted then, with a CRC-32 of its bytes in
each of them, so a torn block was never noted. A block that is noted and does not read back (after a
power cut, or on a disk that lies) ends what is kept: it is made again, and so are those after it.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from ttf.data.vectors import npy_header
from ttf.errors import EntryRefused, storage_error
from ttf.rundir.confined import open_inside, write_inside
from ttf.rundir.durable import fsync_dir, fsync_file, write_at
from ttf.rundir.removing import remove_if_there

JOURNAL: Final = "blocks.bin"
_MAGIC: Final = b"ttfblk1\n"
_HEAD_BYTES: Final = len(_MAGIC) + 32
_ROWS: Final = struct.Struct("<Q")
_CHECKSUM: Final = struct.Struct("<I")
_READ_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class Layout:
    shape: tuple[int, ...]
    dtype: str

    @property
    def stored(self) -> np.dtype[Any]:
        return np.dtype(self.dtype)

    @property
    def header(self) -> bytes:
        return npy_header(self.shape, self.stored)

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.shape[1:], dtype=np.int64)) * int(self.stored.itemsize)

    def offset(self, rows: int) -> int:
        return len(self.header) + rows * self.row_bytes


class GrowingArrays:
    """Arrays of one length in a folder of their own. Use `open`, or `finished`."""

    def __init__(
        self, folder: Path, inside: Path, arrays: Mapping[str, Layout], key: str, area: str
    ) -> None:
        self._folder = folder
        self._inside = inside
        self._arrays = dict(arrays)
        self._area = area
        (self.length,) = {layout.shape[0] for layout in self._arrays.values()}
        facts = key, list(self._arrays.items())
        self._head = _MAGIC + hashlib.sha256(repr(facts).encode()).digest()
        self.done = 0  # Rows that are whole.
        self._noted = len(self._head)  # Where the next note goes,
        self._last_note = 0  # and the checksum of the one before it.

    @classmethod
    def open(
        cls,
        folder: Path,
        inside: Path,
        arrays: Mapping[str, Layout],
        key: str,
        area: str,
    ) -> Self:
        """Goes on with the arrays in `folder` if they have the same key; else begins anew.

        `arrays`: by file name. `key`: a hash of all that the content depends on. Raises
        StorageError.
        """
        made = cls(folder, inside, arrays, key, area)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not made._resume():
                made._start()
        except OSError as error:
            raise storage_error(error, str(folder)) from error
        return made

    @classmethod
    def finished(
        cls, folder: Path, inside: Path, arrays: Mapping[str, Layout], key: str, area: str
    ) -> Self | None:
        """Complete arrays that read back as written; None if there are none. Changes nothing."""
        found = cls(folder, inside, arrays, key, area)
        try:
            whole = found._resume() and found.done == found.length
            whole = whole and all(
                found.path(name).stat().st_size == layout.offset(found.length)
                for name, layout in arrays.items()
            )
        except OSError:
            return None
        return found if whole else None

    @staticmethod
    def forget(folder: Path) -> None:
        """The next attempt begins with nothing."""
        with contextlib.suppress(OSError):  # then it cannot be continued either
            remove_if_there(folder / JOURNAL, folder)

    @staticmethod
    def has_blocks(folder: Path) -> bool:
        try:
            with open_inside(folder / JOURNAL, folder) as file:
                return len(file.read(_HEAD_BYTES + 1)) > _HEAD_BYTES
        except (OSError, EntryRefused):
            return False

    def path(self, name: str) -> Path:
        return self._folder / name

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        # Read, not mapped: if a file is cut meanwhile, this raises and is no SIGBUS.
        layout = self._arrays[name]
        with open_inside(self.path(name), self._inside) as file:
            file.seek(layout.offset(start))
            data = file.read((stop - start) * layout.row_bytes)
        return np.frombuffer(data, layout.stored).reshape(stop - start, *layout.shape[1:])

    def append(self, *blocks: NDArray[Any], durable: bool = False) -> None:
        """Adds the next rows of each array. A killed process does not lose them; with `durable`, a
        power cut does not either. Raises StorageError."""
        count = len(blocks[0])
        note = _ROWS.pack(self.done + count)
        try:
            for (name, layout), block in zip(self._arrays.items(), blocks, strict=True):
                assert block.shape == (count, *layout.shape[1:])
                assert self.done + count <= self.length
                data = block.astype(layout.stored, copy=False).tobytes()
                note += _CHECKSUM.pack(zlib.crc32(data))
                self._write(name, layout.offset(self.done), data, durable=durable)
            self._last_note = zlib.crc32(note, self._last_note)
            note += _CHECKSUM.pack(self._last_note)
            self._write(JOURNAL, self._noted, note, durable=durable)
        except OSError as error:
            raise storage_error(error, str(self._folder)) from error
        self.done += count
        self._noted += len(note)

    def _write(self, name: str, position: int, data: bytes, *, durable: bool) -> None:
        path = self.path(name)
        with write_inside(path, self._inside) as file:
            write_at(file.fileno(), path, self._area, position, data)
            if durable:
                fsync_file(file.fileno(), path, self._area)

    def _start(self) -> None:
        self.done, self._noted, self._last_note = 0, len(self._head), 0
        # The notes go first and come last: in between, nothing here is whole.
        write_inside(self.path(JOURNAL), self._inside, anew=True).close()
        for name, layout in self._arrays.items():
            write_inside(self.path(name), self._inside, anew=True).close()
            self._write(name, 0, layout.header, durable=False)
        self._write(JOURNAL, 0, self._head, durable=False)
        fsync_dir(self._folder, self._area)

    def _resume(self) -> bool:
        """False if there is nothing to go on with."""
        with contextlib.ExitStack() as files:
            try:
                notes = files.enter_context(open_inside(self.path(JOURNAL), self._inside))
                opened = [
                    files.enter_context(open_inside(self.path(name), self._inside))
                    for name in self._arrays
                ]
            except (FileNotFoundError, EntryRefused):
                return False
            layouts = self._arrays.values()
            same = notes.read(len(self._head)) == self._head and all(
                file.read(len(layout.header)) == layout.header
                for file, layout in zip(opened, layouts, strict=True)
            )
            while same and self.done < self.length and self._take_note(notes, opened):
                pass
        return same

    def _take_note(self, notes: BufferedReader, opened: Sequence[BufferedReader]) -> bool:
        """Counts the block of the next note; False if there is none that reads back."""
        size = _ROWS.size + (len(opened) + 1) * _CHECKSUM.size
        note = notes.read(size)
        if len(note) != size:
            return False
        (rows,) = _ROWS.unpack_from(note)
        *wanted, own = struct.unpack_from(f"<{len(opened) + 1}I", note, _ROWS.size)
        chained = zlib.crc32(note[: -_CHECKSUM.size], self._last_note)
        if own != chained or not self.done < rows <= self.length:
            return False
        sizes = [(rows - self.done) * layout.row_bytes for layout in self._arrays.values()]
        if [_checksum(file, part) for file, part in zip(opened, sizes, strict=True)] != wanted:
            return False
        self.done, self._last_note, self._noted = rows, chained, self._noted + size
        return True


def _checksum(file: BufferedReader, size: int) -> int:
    """Of the next bytes; that of fewer if the file is shorter."""
    found = 0
    while size and (part := file.read(min(size, _READ_BYTES))):
        found = zlib.crc32(part, found)
        size -= len(part)
    return found if not size else -1
