"""The records of a zip64 archive of stored members, as bytes (APPNOTE 6.3, section 4.3)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

ALIGNMENT: Final = 4096
"""Arrays start on pages: rows that are whole pages are read without amplification."""

CRC_OFFSET: Final = 14
"""Of the checksum inside a local header: it is known only after the data."""

_FULL: Final = 0xFFFFFFFF
_VERSION: Final = 45
_DOS_DATE: Final = (1 << 5) | 1  # 1980-01-01: equal content gives equal bytes
_PAD_ID: Final = 0x5454
_UTF8: Final = 0x800
_UNIX: Final = 3 << 8
_FILE_MODE: Final = 0o100644 << 16


@dataclass(frozen=True)
class Entry:
    """A finished member, for the directory at the end."""

    filename: bytes
    offset: int
    size: int
    crc: int


def local_header(filename: bytes, size: int, offset: int, array_start: int) -> bytes:
    """A header at `offset`, padded so that byte `array_start` of the member is on a page."""
    sizes = struct.pack("<HHQQ", 1, 16, size, size)
    fixed = 30 + len(filename) + len(sizes) + 4
    pad = -(offset + fixed + array_start) % ALIGNMENT
    extra = sizes + struct.pack("<HH", _PAD_ID, pad) + bytes(pad)
    head = struct.pack(
        "<4s5H3L2H",
        b"PK\x03\x04",
        _VERSION,
        _flags(filename),
        0,
        0,
        _DOS_DATE,
        0,
        _FULL,
        _FULL,
        len(filename),
        len(extra),
    )
    return head + filename + extra


def central_directory(entries: list[Entry], start: int) -> bytes:
    """The directory and both end records, for a directory that begins at byte `start`."""
    body = b"".join(_central_header(e) for e in entries)
    count, end = len(entries), start + len(body)
    zip64_end = struct.pack(
        "<4sQ2H2L4Q",
        b"PK\x06\x06",
        44,
        _UNIX | _VERSION,
        _VERSION,
        0,
        0,
        count,
        count,
        len(body),
        start,
    )
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    short = min(count, 0xFFFF)
    end_record = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, short, short, _FULL, _FULL, 0)
    return body + zip64_end + locator + end_record


def _central_header(entry: Entry) -> bytes:
    extra = struct.pack("<HHQQQ", 1, 24, entry.size, entry.size, entry.offset)
    head = struct.pack(
        "<4s6H3L5H2L",
        b"PK\x01\x02",
        _UNIX | _VERSION,
        _VERSION,
        _flags(entry.filename),
        0,
        0,
        _DOS_DATE,
        entry.crc,
        _FULL,
        _FULL,
        len(entry.filename),
        len(extra),
        0,
        0,
        0,
        _FILE_MODE,
        _FULL,
    )
    return head + entry.filename + extra


def _flags(filename: bytes) -> int:
    return 0 if filename.isascii() else _UTF8
