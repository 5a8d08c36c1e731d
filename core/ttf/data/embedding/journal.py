"""The journal of a table: what changed since the base file was written.

A segment is a file of blocks: 64 bytes of header, the row numbers, their records. While it grows
nobody relies on it. It is committed by a manifest beside it, written after the segment is durable:
a segment without a manifest is a dead process's, and is removed. Committed segments are numbered
without a gap; what a row is worth is its last record in the newest segment that has it.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.data.embedding.records import UNIT, Records
from ttf.errors import ArtifactDamaged, StorageError, storage_error
from ttf.rundir.confined import names_in, open_inside, read_json
from ttf.rundir.durable import TEMP_PREFIX, OpenFile, fsync_dir, write_json
from ttf.rundir.removing import remove_if_there

AREA: Final = "table"
_MAGIC: Final = b"TTFTABL1"
# magic, segment, block, records, units of a record, CRC-32 of numbers and records, of the header
_HEADER: Final = struct.Struct("<8sQQQIII")
_MOST_UNITS: Final = 1 << 29  # 34 GB: so many positions fit beside the place of the segment.
_AT_ONCE: Final = 1 << 14  # Records of a block.
# Written to the disk in small portions: reads behind a whole gigabyte would wait for seconds.
SYNC_BYTES: Final = 32 << 20
_SUFFIX: Final = ".rows"
# Anything else in the folder is somebody else's, and stays.
_OURS: Final = re.compile(r"[0-9]{9,}\.(rows|json)")


@dataclass(frozen=True, kw_only=True)
class Block:
    ids: NDArray[np.int64]
    units: NDArray[np.int64]  # Where each record begins.


class Segment:
    """One file of the journal; `number` counts from 1 for the whole life of the table."""

    def __init__(self, folder: Path, number: int, units: int, file: OpenFile | None = None) -> None:
        self.number = number
        self.path = folder / f"{number:09d}{_SUFFIX}"
        self.manifest = folder / f"{number:09d}.json"
        self.units = units
        self.size = 0
        self.blocks = 0
        self._synced = 0
        self._folder = folder
        self._file = file
        self._fd = -1

    @classmethod
    def begin(cls, folder: Path, number: int, units: int) -> Segment:
        segment = cls(folder, number, units)
        remove_if_there(segment.path, folder.parent, AREA)
        segment._file = OpenFile(segment.path, AREA)
        with open_inside(segment.path, folder.parent) as file:
            segment._fd = os.dup(file.fileno())
        return segment

    @classmethod
    def committed(cls, folder: Path, number: int, units: int) -> Segment:
        """Raises ArtifactDamaged if the file is not what was committed, OSError."""
        segment = cls(folder, number, units)
        facts, blocks = _facts_of(segment.manifest, folder.parent)
        with open_inside(segment.path, folder.parent) as file:
            segment._fd = os.dup(file.fileno())
        size = os.fstat(segment._fd).st_size
        wanted = (facts.get("segment"), facts.get("units"), facts.get("bytes"))
        if wanted != (number, units, size):
            segment.close()
            raise ArtifactDamaged(
                f"{segment.path} has {size:,} bytes; its manifest says segment, units and bytes are "
                f"{wanted}."
            )
        segment.size, segment.blocks = size, blocks
        return segment

    # --- writing --------------------------------------------------------------------------------

    def append(self, ids: NDArray[np.int64], records: Records) -> NDArray[np.int64]:
        """Returns where each record begins, in units. Raises StorageError; the same may then be
        appended again."""
        places = np.empty(len(ids), np.int64)
        for start in range(0, len(ids), _AT_ONCE):
            here = slice(start, start + _AT_ONCE)
            places[here] = self._append(ids[here], records[here])
        return places

    def _append(self, ids: NDArray[np.int64], records: Records) -> NDArray[np.int64]:
        assert self._file is not None
        numbers = np.zeros(-(-len(ids) * 8 // UNIT) * 8, np.int64)
        numbers[: len(ids)] = ids
        body = np.ascontiguousarray(records)
        first = self.size // UNIT + 1 + numbers.nbytes // UNIT
        if first + len(ids) * self.units >= _MOST_UNITS:
            raise StorageError(
                f"{self.path} would grow beyond {_MOST_UNITS * UNIT:,} bytes.",
                hint="Call sync() more often, or leave auto_sync on.",
            )
        crc = zlib.crc32(body.data, zlib.crc32(numbers.data))
        begin = _HEADER.pack(_MAGIC, self.number, self.blocks, len(ids), self.units, crc, 0)
        begin = begin[:-4] + struct.pack("<I", zlib.crc32(begin[:-4]))
        try:
            for part in (begin.ljust(UNIT, b"\0"), numbers.data, body.data):
                self._file.write(part)
            if self._file.size - self._synced > SYNC_BYTES:
                self._file.sync()
                self._synced = self._file.size
        except OSError as error:
            raise storage_error(error, str(self.path)) from error
        self.size = self._file.size
        self.blocks += 1
        return first + np.arange(len(ids), dtype=np.int64) * self.units

    def commit(self) -> None:
        """Durable on return. Raises StorageError."""
        assert self._file is not None
        try:
            self._file.sync()
            fsync_dir(self._folder, AREA)
        except OSError as error:
            raise storage_error(error, str(self.path)) from error
        self._file.close()
        facts = {"segment": self.number, "units": self.units}
        write_json(self.manifest, {**facts, "blocks": self.blocks, "bytes": self.size}, AREA)

    # --- reading --------------------------------------------------------------------------------

    @property
    def fd(self) -> int:
        return self._fd

    def scan(self) -> Iterator[Block]:
        """Every block, its checksums compared. Raises ArtifactDamaged."""
        at = 0
        for block in range(self.blocks):
            header = os.pread(self._fd, UNIT, at)
            count = self._checked(header, block, at)
            numbers = -(-count * 8 // UNIT) * UNIT
            body = os.pread(self._fd, numbers + count * self.units * UNIT, at + UNIT)
            if zlib.crc32(body) != _HEADER.unpack_from(header)[5]:
                raise ArtifactDamaged(f"{self.path} is damaged in the block at byte {at:,}.")
            ids = np.frombuffer(body, np.int64, count).copy()
            first = (at + UNIT + numbers) // UNIT
            yield Block(ids=ids, units=first + np.arange(count, dtype=np.int64) * self.units)
            at += UNIT + len(body)
        if at != self.size:
            raise ArtifactDamaged(f"{self.path} has {self.size - at:,} bytes after its last block.")

    def _checked(self, header: bytes, block: int, at: int) -> int:
        if len(header) == UNIT:
            magic, number, which, count, units, _, crc = _HEADER.unpack_from(header)
            wanted = (
                _MAGIC,
                self.number,
                block,
                self.units,
                zlib.crc32(header[: _HEADER.size - 4]),
            )
            end = at + UNIT + count * (8 + units * UNIT)
            fits = count <= _AT_ONCE and end <= self.size + UNIT
            if (magic, number, which, units, crc) == wanted and fits:
                return int(count)
        raise ArtifactDamaged(f"{self.path} has no intact block at byte {at:,}.")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def remove(self) -> None:
        """The manifest first: without it the segment does not count."""
        self.close()
        remove_if_there(self.manifest, self._folder.parent, AREA)
        remove_if_there(self.path, self._folder.parent, AREA)


def _facts_of(manifest: Path, table: Path) -> tuple[dict[str, Any], int]:
    """The manifest of a segment, and how many blocks it has. Raises ArtifactDamaged, OSError."""
    facts = read_json(manifest, table)
    blocks = facts.get("blocks") if isinstance(facts, dict) else None
    if not isinstance(blocks, int):
        raise ArtifactDamaged(f"{manifest} is damaged: it does not describe a segment.")
    return facts, blocks


def committed_numbers(folder: Path, after: int) -> list[int]:
    """Of the segments after one, up to the first gap."""
    present = {
        int(Path(name).stem)
        for name in names_in(folder, folder.parent)
        if name.endswith(".json") and _OURS.fullmatch(name)
    }
    numbers = []
    while after + 1 in present:
        after += 1
        numbers.append(after)
    return numbers


def remove_others(folder: Path, keep: list[int]) -> None:
    """Removes what a dead process left, and segments that are to be forgotten; durable on return,
    before a new segment may take their numbers."""
    stems = {f"{number:09d}" for number in keep}
    others = [
        name
        for name in names_in(folder, folder.parent)
        if Path(name).stem not in stems and (_OURS.fullmatch(name) or name.startswith(TEMP_PREFIX))
    ]
    # Newest first, manifests before their files: whatever a crash leaves has no gap.
    for name in sorted(others, key=lambda name: (name.endswith(".json"), name), reverse=True):
        with contextlib.suppress(FileNotFoundError):
            remove_if_there(folder / name, folder.parent, AREA)
    if others:
        fsync_dir(folder, AREA)
