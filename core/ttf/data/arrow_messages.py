"""What the record batches of an Arrow file unpack to, read from their headers before one is decoded.

A batch of a few kilobytes can hold gigabytes of zeros, and Arrow decodes a batch as a whole. Headers are
tables of FlatBuffers (Message.fbs and File.fbs of Apache Arrow); pyarrow reads them, but does not show
them. Before each compressed buffer stands its unpacked length.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from ttf.errors import BadData

_MAGIC: Final = b"ARROW1"
_CONTINUES: Final = 0xFFFFFFFF
_MOST_HEADER: Final = 64 << 20
_DICTIONARY, _RECORDS = 2, 3
# Of the years before compression had a place in the header.
_EARLY: Final = b"ARROW:experimental_compression"
_BLOCK: Final = struct.Struct("<qi4xq")  # offset, bytes of the header, bytes of the body
_BUFFER: Final = struct.Struct("<qq")  # offset, bytes
_LENGTH: Final = struct.Struct("<q")


@dataclass(frozen=True)
class ArrowBatch:
    """A batch of rows, or of the values of a dictionary."""

    unpacked: int
    """Bytes of its compressed buffers once they are decoded; 0 if none is compressed."""
    packed: int


def arrow_batches(file: BinaryIO, path: Path) -> Iterator[ArrowBatch]:
    """The batches of an open file or stream, in order. Raises BadData if a header cannot be read."""
    try:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        of_file = file.read(len(_MAGIC)) == _MAGIC
        yield from _of_file(file, size) if of_file else _of_stream(file, size)
    except (struct.error, LookupError, ValueError) as error:
        raise BadData(
            f"{path} is damaged: the header of a batch cannot be read ({error}).",
            hint="Write or copy the file again.",
        ) from error


def _of_file(file: BinaryIO, size: int) -> Iterator[ArrowBatch]:
    tail = 4 + len(_MAGIC)
    (length,) = struct.unpack("<i", _read(file, size - tail, 4, size))
    footer = _Table.root(_read(file, size - tail - length, length, size))
    for field in (_DICTIONARY, _RECORDS):  # by chance also their places in the footer
        for offset, header, _ in footer.structs(field, _BLOCK):
            found = _batch(file, offset, size, within=header)
            if found is not None:
                yield found[0]


def _of_stream(file: BinaryIO, size: int) -> Iterator[ArrowBatch]:
    at = 0
    while at + 4 <= size:
        found = _batch(file, at, size)
        if found is None:
            return
        batch, at = found
        yield batch


def _batch(
    file: BinaryIO, at: int, size: int, within: int | None = None
) -> tuple[ArrowBatch, int] | None:
    """The message at a place and where the next one begins; None: the stream ends there. A message
    without a body, such as the schema, is a batch of no bytes."""
    (length,) = struct.unpack("<I", _read(file, at, 4, size))
    begin = at + 4
    if length == _CONTINUES:
        (length,) = struct.unpack("<I", _read(file, begin, 4, size))
        begin += 4
    if not length:
        return None
    raw = _read(file, begin, length, size)
    message = _Table.root(raw)
    body = begin + length if within is None else at + within
    packed = message.number(3, "<q")
    if packed < 0 or body + packed > size:
        raise ValueError("a batch beyond the end of the file")
    kind, header = message.number(1, "<B"), message.table(2)
    if kind == _DICTIONARY and header is not None:
        header = header.table(1)
    if kind not in (_DICTIONARY, _RECORDS) or header is None:
        return ArrowBatch(0, packed), body + packed
    if header.table(3) is None and _EARLY not in raw:
        return ArrowBatch(0, packed), body + packed
    unpacked = sum(_unpacked(file, body, size, *one) for one in header.structs(2, _BUFFER))
    return ArrowBatch(unpacked, packed), body + packed


def _unpacked(file: BinaryIO, body: int, size: int, offset: int, count: int) -> int:
    if count < _LENGTH.size:
        return 0
    (unpacked,) = _LENGTH.unpack(_read(file, body + offset, _LENGTH.size, size))
    return count if unpacked < 0 else int(unpacked)  # -1: it was not worth it


def _read(file: BinaryIO, at: int, count: int, size: int) -> bytes:
    if at < 0 or not 0 <= count <= _MOST_HEADER or at + count > size:
        raise ValueError("a place beyond the end of the file")
    file.seek(at)
    return file.read(count)


class _Table:
    """A table of FlatBuffers: its fields by number."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - self._int("<i", at)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data)[0])

    def number(self, field: int, form: str) -> int:
        """0 if it is not there, as FlatBuffers has it."""
        at = self._place(field)
        return self._int(form, at) if at is not None else 0

    def table(self, field: int) -> _Table | None:
        at = self._place(field)
        return None if at is None else _Table(self._data, at + self._int("<I", at))

    def structs(self, field: int, form: struct.Struct) -> Iterator[tuple[int, ...]]:
        at = self._place(field)
        if at is None:
            return
        at += self._int("<I", at)
        count = self._int("<I", at)
        if at + 4 + count * form.size > len(self._data):
            raise ValueError("a list beyond the end of its header")
        for number in range(count):
            yield form.unpack_from(self._data, at + 4 + number * form.size)

    def _place(self, field: int) -> int | None:
        slot = 4 + 2 * field
        if slot + 2 > self._int("<H", self._fields):
            return None
        offset = self._int("<H", self._fields + slot)
        return self._at + offset if offset else None

    def _int(self, form: str, at: int) -> int:
        if at < 0:  # struct would count from the end
            raise ValueError("a place before its header")
        return int(struct.unpack_from(form, self._data, at)[0])
